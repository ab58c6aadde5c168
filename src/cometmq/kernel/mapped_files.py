"""A log file as seen by a pull; those of a store are subclasses (`store.log_file`). Compiled twin: `_mapped_files`."""


class MappedFile:
    """A file of the log: the range of its physical offsets, and its bytes if they are mapped.

    Attributes:
        start: Physical offset of its first byte.
        end: Physical offset after its last byte.
        mapped: Its bytes; None if they are not mapped.
    """

    __slots__ = ("end", "mapped", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.mapped: memoryview | None = None
