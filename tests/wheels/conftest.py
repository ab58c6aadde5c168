"""What `make build` makes, once; each other Python builds its wheel of the source distribution."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheels import pythons

# A wheel is for a release: without the compiled kernel it is none.
STRICT = {**os.environ, "COMETMQ_KERNEL": "fast"}


def pytest_report_header() -> list[str]:
    """Say where the Pythons are, and which this machine does not have: these fail nothing."""
    where = pythons.found() | pythons.fetchable()
    return [
        f"Python {version}: {where.get(version, 'not on this machine, and so not tested here')}"
        for version in pythons.supported()
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


def each_python() -> list[object]:
    """The Pythons as parameters; CI leaves out all but its own, as each compiles for a minute (`-m 'not slow'`)."""
    own = Path(sys.executable)
    return [
        pytest.param(
            version, marks=() if pythons.found().get(version) == own else pytest.mark.slow
        )
        for version in (*pythons.found(), *pythons.fetchable())
    ]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory) -> Path:
    """The source distribution of this tree, and beside it the wheel that this Python builds of nothing but what is in it."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", folder, pythons.ROOT], env=STRICT)
    [archive] = folder.glob("cometmq-*.tar.gz")
    return Path(archive)


@pytest.fixture(scope="session", params=each_python())
def wheel(request, tmp_path_factory, sdist: Path) -> tuple[Path, Path]:
    """A Python of this machine, and the wheel that it builds of the source distribution."""
    python, folder = pythons.python(request.param), sdist.parent
    if python != Path(sys.executable):
        folder = tmp_path_factory.mktemp("wheel")
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "wheel"]
        run([*pip, "--quiet", "--no-deps", "--wheel-dir", folder, sdist], env=STRICT)
    [made] = folder.glob("cometmq-*.whl")
    return python, made
