"""Options common to all jobs: dry run, and how progress is shown."""

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
    """Options common to all jobs: dry run, and how progress is shown."""

    dry_run: bool = option("Show what would be done, but do nothing.", False, is_what=False)
    progress: ProgressStyle = option(
        "Progress on stderr: a line on a terminal, JSON lines, or none.",
        "auto",
        is_what=False,
    )

    def check_given(self) -> None:
        """Raise SettingsError if a required option, or `state`, is an empty text."""
        for each in fields(self):
            is_needed = each.default is MISSING or each.name == "state"
            if is_needed and getattr(self, each.name) == "":
                is_argument = each.metadata["is_argument"]
                name = each.name if is_argument else f"--{each.name.replace('_', '-')}"
                raise SettingsError(f"{name} is empty: {each.metadata['help']}")

    def what(self) -> dict[str, Any]:
        """Return the values of options that determine what is done, by name, to tell runs apart; places in canonical form."""
        return {
            each.name: _as_one(getattr(self, each.name), is_place=each.name in _PLACES)
            for each in fields(self)
            if each.metadata.get("is_what", True)
        }


def _as_one(value: Any, *, is_place: bool) -> Any:
    """Return a place, or a text with "://", in canonical form, as part of a run's id; any other value unchanged.

    Paths become absolute: the same relative path is another folder in another working directory, and must not resume the
    run there. URIs are unified: a run to `s3a://` is the run to `s3://`.
    """
    is_one = isinstance(value, str) and (("://" in value) or (is_place and value))
    return same_place(value) if is_one else value
