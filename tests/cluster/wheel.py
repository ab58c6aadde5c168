"""CometMQ as its users install it: a wheel from the sources, in virtual environments of its own.

Dependencies are those of the environment that runs the tests; a `.pth` shows them to the others. Its
own editable CometMQ is not seen there: `.pth` files are read in the first folder only.
"""

import shutil
import sys
import sysconfig
from pathlib import Path

from tests.support.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120


def build(folder: Path) -> Path:
    """Build the wheel in `folder`, with the plain kernel; its path."""
    sources = folder / "sources"
    tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = run_program(
        *tracked,
        "src",
        "setup.py",
        "pyproject.toml",
        "README.md",
        cwd=ROOT,
        seconds=SECONDS_MAX,
    )
    for name in filter(lambda name: (ROOT / name).is_file(), listing.stdout.splitlines()):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--retries", "10", "--no-deps"]
    # Compiling takes a minute, and is the business of `make setup`.
    run_program(
        *command, "--wheel-dir", folder, sources, env={"CC": "/bin/false"}, seconds=SECONDS_MAX
    )
    return next(folder.glob("*.whl"))


def environment(folder: Path, wheel: Path | None = None) -> Path:
    """Make a virtual environment, with CometMQ from `wheel` or without any; its Python."""
    run_program(sys.executable, "-m", "venv", "--without-pip", folder, seconds=SECONDS_MAX)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = folder / "bin" / "python"
    if wheel is not None:
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
        package = f"cometmq[spark] @ {wheel.as_uri()}"
        run_program(*pip, "--no-index", package, seconds=SECONDS_MAX)
    return python
