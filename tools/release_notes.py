"""Prints the notes of a release, from CHANGELOG.md; fails where tag, version and changelog do not belong together.

Usage: release_notes.py vX.Y.Z
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_SECTION = "## {} ("  # As `title_format` of towncrier has it, in pyproject.toml.


class NotReleasable(Exception):
    """A tag that must not become a release; the text says why, and what to do."""


def notes(tag: str, root: Path = ROOT) -> str:
    """Return the changelog's section of the version that a tag names.

    Args:
        tag: Name of the tag, "v0.1.0".
        root: Folder of the sources.

    Raises:
        NotReleasable: The package has another version, the changelog has no section of it, or notes in `changes` are in none.
    """
    found = _VERSION.search((root / "src" / "cometmq" / "__init__.py").read_text())
    version = found[1] if found else "without a number"
    if tag != f"v{version}":
        raise NotReleasable(
            f"the tag is {tag} and the package {version}: set __version__ in src/cometmq/__init__.py, or tag v{version}"
        )
    _, start, rest = (root / "CHANGELOG.md").read_text().partition(_SECTION.format(version))
    if not start:
        raise NotReleasable(
            f"CHANGELOG.md has no section {_SECTION.format(version)}...): towncrier build makes it"
        )
    if left := sorted(path.name for path in (root / "changes").glob("+*.md")):
        raise NotReleasable(
            f"{len(left)} notes in changes/ are in no release, such as {left[0]}: towncrier build collects them"
        )
    return rest.partition("\n## ")[0].partition("\n")[2].strip() + "\n"


def main() -> None:
    """Print the notes of the release that the argument names."""
    if len(sys.argv) != 2:
        sys.exit("usage: release_notes.py vX.Y.Z")
    try:
        sys.stdout.write(notes(sys.argv[1]))
    except NotReleasable as error:
        sys.exit(f"release_notes.py: {error}")


if __name__ == "__main__":
    main()
