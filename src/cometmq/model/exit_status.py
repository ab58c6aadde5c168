"""The exit statuses of every command of `cometmq`: the one table (docs/cli.md)."""

from enum import IntEnum

from cometmq.model.errors import SettingsError


class ExitStatus(IntEnum):
    """The exit status of a command.

    WELL: it did what it was told, and what it looked at is as it should be.
    FOUND: it did what it was told, and found something: damage, a difference, lost messages; or nothing
        where it was to find a message. 1, as grep, diff and cmp have it.
    WRONG_USE: an argument or a setting is wrong, and nothing was done. 2, as every parser of arguments
        has it.
    FAILED: it could not do what it was told: no broker, no store, a full disk, a lock, Ctrl-C in the
        middle of a job.
    """

    WELL = 0
    FOUND = 1
    WRONG_USE = 2
    FAILED = 3


def status_of(error: BaseException) -> ExitStatus:
    """The exit status of a command that an error has ended."""
    return ExitStatus.WRONG_USE if isinstance(error, SettingsError) else ExitStatus.FAILED
