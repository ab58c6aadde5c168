"""Choices of a read of a store, apart from the modules that read, which a process that only checks options does not need."""

from enum import StrEnum

SPLIT_BYTES = 128 << 20  # Usual maximum number of bytes of the log in one task.


class Mode(StrEnum):
    """The handling of damage when reading a log, named as in Spark: PERMISSIVE, DROPMALFORMED or FAILFAST.

    PERMISSIVE marks most damage, DROPMALFORMED leaves it out, FAILFAST raises an error.
    """

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"
