"""CometMQ as its users install it: a wheel from the sources, in virtual environments of its own.

Dependencies are those of the environment that runs the tests; a `.pth` shows them to the others. Its
own editable CometMQ is not seen there: `.pth` files are read in the first folder only.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120


def build(folder: Path) -> Path:
    """Build the wheel in `folder`, with the plain kernel; its path."""
    sources = folder / "sources"
    tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = _run([*tracked, "src", "setup.py", "pyproject.toml", "README.md"], cwd=ROOT)
    for name in filter(lambda name: (ROOT / name).is_file(), listing.splitlines()):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--retries", "10", "--no-deps"]
    # Compiling takes a minute, and is the business of `make setup`.
    plain = {**os.environ, "CC": "/bin/false"}
    _run([*command, "--wheel-dir", str(folder), str(sources)], env=plain)
    return next(folder.glob("*.whl"))


def environment(folder: Path, wheel: Path | None = None) -> Path:
    """Make a virtual environment, with CometMQ from `wheel` or without any; its Python."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = folder / "bin" / "python"
    if wheel is not None:
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        _run([*pip, "--no-index", f"cometmq[spark] @ {wheel.as_uri()}"])
    return python


def _run(command: list[str], **how: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, **how
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return str(done.stdout)
