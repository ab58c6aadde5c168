"""A field of a job's options: a default, and the help that the command line shows."""

from dataclasses import MISSING, field
from typing import Any


def option(
    text: str, default: Any = MISSING, *, is_what: bool = True, is_argument: bool = False
) -> Any:
    """A field of a job's options.

    Args:
        text: its help.
        default: its value where none is given; without one it must be given.
        is_what: it says what is done, so another value is another run (its manifest is another);
            False for what only says how.
        is_argument: on the command line it stands without a name.
    """
    metadata = {"help": text, "is_what": is_what, "is_argument": is_argument}
    return field(default=default, metadata=metadata)
