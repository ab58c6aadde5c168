"""One file of the log as a pull reads it: where its bytes begin and end, and they themselves where they are mapped.

A store's file is one of these and more (`store.log_file`). Compiled: `_mapped_files`.
"""


class MappedFile:
    """A part of the log.

    Attributes:
        start: physical offset of its first byte.
        end: physical offset behind its last.
        mapped: its bytes; None where they are not mapped.
    """

    __slots__ = ("end", "mapped", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.mapped: memoryview | None = None
