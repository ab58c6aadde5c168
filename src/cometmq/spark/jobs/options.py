"""The options that every job takes."""

from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from cometmq.model.errors import SettingsError
from cometmq.offline.place import same_place
from cometmq.spark.jobs.field import option

# Options that name a folder or a URI.
_PLACES = frozenset({"store", "archive", "to", "out"})

ProgressStyle = Literal["auto", "json", "none"]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options that every job takes.

    Attributes:
        dry_run: report ranges, files and rows, and do nothing.
        progress: how a run tells how far it is.
    """

    dry_run: bool = option("Say what would be done, and do nothing.", False, is_what=False)
    progress: ProgressStyle = option(
        "Progress on stderr: a line on a terminal, JSON lines, or nothing.",
        "auto",
        is_what=False,
    )

    def check_given(self) -> None:
        """Refuse options that are needed and were given an empty text.

        Raises:
            SettingsError: one was.
        """
        for each in fields(self):
            is_needed = each.default is MISSING or each.name == "state"
            if is_needed and getattr(self, each.name) == "":
                is_argument = each.metadata["is_argument"]
                name = each.name if is_argument else f"--{each.name.replace('_', '-')}"
                raise SettingsError(f"{name} is empty: {each.metadata['help']}")

    def what(self) -> dict[str, Any]:
        """The values that say what is done, by name: what tells one run from another."""
        return {
            each.name: _as_one(getattr(self, each.name), is_place=each.name in _PLACES)
            for each in fields(self)
            if each.metadata.get("is_what", True)
        }


def _as_one(value: Any, *, is_place: bool) -> Any:
    """Return a place in its one spelling.

    A path from the root: the same relative path names another folder in another working directory, and its run must not go
    on where this one ended. A URI: to `s3a://` is the run that was to `s3://`.
    """
    is_one = isinstance(value, str) and (("://" in value) or (is_place and value))
    return same_place(value) if is_one else value
