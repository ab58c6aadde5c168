"""Lists of symptoms for people: without those that the operator ignores, and with many alike in one entry."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cometmq.client.admin.facts import CASES, Symptom
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

ALIKE_MAX = 5
_FILE_SIZE_MAX = 1 << 20


class IgnoreList:
    """Symptoms that an operator does not want to see, for example those of a group that is kept on purpose.

    An entry is a check, or a check and the affected object: "abandoned", "abandoned:billing" or "abandoned:test-*", where
    "*" stands for any text and "?" for one character.

    Args:
        entries: The entries; empty ones and those that start with "#" have no effect.

    Raises:
        SettingsError: An entry names no check.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._subjects: dict[str, list[str]] = {}
        for entry in map(str.strip, entries):
            if not entry or entry.startswith("#"):
                continue
            check, _, subject = entry.partition(":")
            if check not in CASES:
                raise SettingsError(
                    f"{in_quotes(entry)} ignores no finding of doctor: write CHECK or CHECK:OBJECT, with one of the checks "
                    f"{', '.join(CASES)}"
                )
            self._subjects.setdefault(check, []).append(subject or "*")

    @classmethod
    def read(cls, path: Path | None, more: Iterable[str] = ()) -> "IgnoreList":
        """Read a file with an entry in each line, and add the entries `more`; without a file (None) there are only these.

        Raises SettingsError if the file cannot be read, is larger than 1 MiB, or an entry is invalid.
        """
        if path is None:
            return cls(more)
        try:
            if path.stat().st_size > _FILE_SIZE_MAX:
                raise SettingsError(f"{path} is no ignore list: it has more than 1 MiB")
            lines = path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise SettingsError(
                f"the ignore list {path} cannot be read: {error.strerror or error}"
            ) from None
        except UnicodeDecodeError:
            raise SettingsError(f"the ignore list {path} is not UTF-8 text") from None
        try:
            return cls([*lines, *more])
        except SettingsError as error:
            raise SettingsError(f"ignore list {path}: {error}") from None

    def __contains__(self, symptom: Symptom) -> bool:
        return any(
            symptom.subject == subject or fnmatchcase(symptom.subject, subject)
            for subject in self._subjects.get(symptom.check, ())
        )


def grouped_symptoms(symptoms: Iterable[Symptom]) -> list[Sequence[Symptom]]:
    """Return the symptoms by severity and check, in the order in which these pairs first appear.

    Up to five symptoms of a pair are entries of their own; more are one entry, the oldest first.
    """
    alike: dict[tuple[str, str], list[Symptom]] = {}
    for each in symptoms:
        alike.setdefault((each.severity, each.check), []).append(each)
    found: list[Sequence[Symptom]] = []
    for part in alike.values():
        if len(part) > ALIKE_MAX:
            found.append(sorted(part, key=lambda each: each.since_ms or float("inf")))
        else:
            found += [(each,) for each in part]
    return found
