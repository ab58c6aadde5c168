"""The Pythons of this machine on which CometMQ is to run: the one of the tests, and what else is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where pyenv and uv keep the Pythons that they install: their folders, as both document them.
_FOLDERS = (
    (Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions", "{}.*"),
    (Path.home() / ".local" / "share" / "uv" / "python", "cpython-{}.*"),
)
# A Debian Python may lack both.
_LOOK = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


@cache
def supported() -> tuple[str, ...]:
    """The versions of Python that the package names: 3.11 and later."""
    prefix = "Programming Language :: Python :: "
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return tuple(
        text.removeprefix(prefix) for text in project["classifiers"] if text.startswith(prefix)
    )


@cache
def found() -> dict[str, Path]:
    """The Pythons of this machine by version, of `supported`; that of the tests is one of them."""
    by_version = {version: _first_that_runs(version) for version in supported()}
    own = "{}.{}".format(*sys.version_info)
    return {version: python for version, python in by_version.items() if python is not None} | {
        own: Path(sys.executable)
    }


def _first_that_runs(version: str) -> Path | None:
    for python in _candidates(version):
        done = subprocess.run(
            [python, "-c", _LOOK], capture_output=True, text=True, check=False, timeout=60
        )
        if done.stdout.strip() == version:
            return python
    return None


def _candidates(version: str) -> Iterator[Path]:
    """Programs that may be the Python of that version; one of pyenv's shims runs only what pyenv has chosen."""
    if program := shutil.which(f"python{version}"):
        yield Path(program)
    for folder, pattern in _FOLDERS:
        for each in sorted(folder.glob(pattern.format(version)), reverse=True):
            yield each / "bin" / f"python{version}"
