"""The source distribution, unpacked once; each Python builds its wheel there."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.wheels import pythons

# A wheel is for a release: without the compiled kernel it is none.
STRICT = {**os.environ, "COMETMQ_KERNEL": "fast"}


def pytest_report_header() -> list[str]:
    """Say which Pythons are tried, and which this machine does not have: these fail nothing."""
    here = [f"Python {version}: {python}" for version, python in pythons.found().items()]
    return here + [
        f"Python {version}: not on this machine, and so not tested here"
        for version in pythons.supported()
        if version not in pythons.found()
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in pytest_report_header():
        terminalreporter.write_line(line)


# A wheel takes a minute where nothing else runs; this ends only what hangs.
SECONDS_MAX = 1_800


def run(command: list[str | Path], *, seconds: float = SECONDS_MAX, **how: object) -> str:
    """Run a command to its end; what it prints. Raises AssertionError if it fails."""
    done = subprocess.run(  # type: ignore[call-overload]
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
        **how,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return str(done.stdout)


@pytest.fixture(scope="session")
def sdist(tmp_path_factory) -> Path:
    """The source distribution of this tree, unpacked: nothing but what is in it is there."""
    folder = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, pythons.ROOT])
    [archive] = folder.glob("cometmq-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="session", params=pythons.found())
def wheel(request, tmp_path_factory, sdist: Path) -> tuple[Path, Path]:
    """A Python of this machine, and the wheel that it builds of the source distribution."""
    python = pythons.found()[request.param]
    folder = tmp_path_factory.mktemp("wheel")
    run([python, "-m", "venv", folder / "builder"])
    pip = [folder / "builder" / "bin" / "python", "-m", "pip", "wheel", "--quiet", "--no-deps"]
    run([*pip, "--wheel-dir", folder, sdist], env=STRICT)
    [made] = folder.glob("cometmq-*.whl")
    return python, made
