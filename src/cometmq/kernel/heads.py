"""Constants of headers as official clients and brokers write them, for code that reads frames before decoding.

The form is ASCII JSON without blanks and escapes, with distinct names and only texts as field values. Any other header is
decoded by the slow path, as a command. Compiled twin: `_scan.pxd`.
"""

from cometmq.model.codes import Language

HEADER_SIZE_PLAIN = 4096  # Bytes; requests that are parsed this way have shorter headers.
LANGUAGES = tuple(language.name.encode() for language in Language)
