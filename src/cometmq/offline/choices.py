"""Options of reads of a store, in a module of their own, so that checking options does not import the readers."""

from enum import StrEnum

SPLIT_BYTES = 128 << 20  # Usual maximum number of bytes of the log in one task.


class Mode(StrEnum):
    """The handling of damage when reading a log, named as in Spark: PERMISSIVE, DROPMALFORMED or FAILFAST.

    PERMISSIVE marks most damage, DROPMALFORMED leaves it out, FAILFAST raises an error.
    """

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"
