"""Constants of headers as official clients and brokers write them, for code that reads frames before decoding.

The compiled twin, `_scan.pxd`, reads ASCII JSON without escapes or blanks between its parts, with only texts as field values.
Headers that no compiled reader accepts are decoded by the slow path, as commands.
"""

from cometmq.model.codes import Language

HEADER_SIZE_PLAIN = 4096  # Bytes; requests that are parsed this way have shorter headers.
LANGUAGES = tuple(language.name.encode() for language in Language)
