"""The user's choice of the member of a broker group to read from; Spark imports it in processes that read nothing."""

from enum import StrEnum


class ReadFrom(StrEnum):
    """The member of a broker group to read from first: the master, a slave, or the one that a broker suggested last.

    Only the master decides that there are no messages, because a slave may lag behind it or have started later.
    """

    MASTER = "master"
    SLAVE = "slave"
    SUGGESTED = "suggested"
