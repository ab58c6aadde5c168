"""The exit statuses with which `cometmq` commands end by themselves (docs/cli.md)."""

from enum import IntEnum

from cometmq.model.errors import SettingsError


class ExitStatus(IntEnum):
    """The exit status of a command.

    WELL: The command succeeded and found no problem.
    FOUND: The command succeeded and found something: damage, a difference, lost messages; or no message although it was
        to find one. 1, as in grep, diff and cmp.
    WRONG_USE: An argument or a setting is wrong. 2, as in argument parsers.
    FAILED: The command failed, for example: no broker, no store, a full disk, a lock, Ctrl-C, or the user answered no.
    """

    WELL = 0
    FOUND = 1
    WRONG_USE = 2
    FAILED = 3


def status_of(error: BaseException) -> ExitStatus:
    """Return the exit status of a command that ended with an error: WRONG_USE for a SettingsError, otherwise FAILED."""
    return ExitStatus.WRONG_USE if isinstance(error, SettingsError) else ExitStatus.FAILED
