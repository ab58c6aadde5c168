"""Field of a job's options: a default value, and the help on the command line."""

from dataclasses import MISSING, field
from typing import Any


def option(
    text: str, default: Any = MISSING, *, is_what: bool = True, is_argument: bool = False
) -> Any:
    """Return a dataclass field for an option of a Spark job, which is required if it has no default.

    Args:
        text: Help text.
        default: Default value.
        is_what: Whether it determines what is done, so that another value is another run with its own manifest; False
            if it only determines how.
        is_argument: Whether it is a positional argument on the command line.
    """
    metadata = {"help": text, "is_what": is_what, "is_argument": is_argument}
    return field(default=default, metadata=metadata)
