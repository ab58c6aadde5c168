"""Headers as official clients and brokers write them, for those who look at a frame before it is a command.

JSON of ASCII without a blank and without an escape, each name once, the values of its fields texts. Any other is read with care, as
a command. Compiled: `_scan.pxd`.
"""

from cometmq.model.codes import Language

HEADER_SIZE_PLAIN = 4096  # Bytes; none of those who are asked here is as long.
LANGUAGES = tuple(language.name.encode() for language in Language)
