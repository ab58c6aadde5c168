"""Containers without Docker: a program in an image's layers, read-only, with a network of its own and no rights.

with Bridge() as bridge, bridge.container(image, "broker-a", ["broker"], data=folder, env={}) as one:
    one.ip                                    # its address, as from a published port
    one.run(["cometmq", "topic", "list"])     # as docker exec does
    one.stop()                                # SIGTERM to process 1; the exit status

What Docker does for a container is done here: `/.dockerenv`, the names of the others in /etc/hosts, a volume that belongs to
the image's user, a file system that cannot be written, no capabilities, process 1.
"""

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.image_builder import Image
from tests.support.processes import Program
from tests.support.programs import run_program

# $1 lower layers, $2 mount point, $3 folder of the data, $4 mount point of the data in the image, then the command.
_START = """
mount -t overlay overlay -o "lowerdir=$1" "$2"
mount -t proc proc "$2/proc"
mount -t sysfs -o ro sysfs "$2/sys"
mount --rbind /dev "$2/dev"
mount -t tmpfs tmpfs "$2/tmp"
mount --bind "$3" "$2$4"
root=$2; shift 4
exec chroot "$root" "$@"
"""


class Bridge:
    """A network for containers, which this machine reaches, and nobody else; leaving the block removes it."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for mount points and the files of containers."""
        self._folder = folder
        # 198.18.0.0/15 is kept for tests of networks.
        number = random.randrange(1 << 9)
        self._net = f"198.{18 + (number >> 8)}.{number & 255}"
        self.subnet = f"{self._net}.0/24"
        self._name = f"cmqb{number}"
        self._hosts: dict[str, str] = {}

    def __enter__(self) -> Self:
        _ip(f"link add {self._name} type bridge")
        _ip(f"addr add {self._net}.1/24 dev {self._name}")
        _ip(f"link set {self._name} up")
        return self

    def __exit__(self, *_: object) -> None:
        for number in range(len(self._hosts)):
            _ip(f"netns del {self._name}n{number}")
        _ip(f"link del {self._name}")

    def add(self, name: str) -> None:
        """Give a container its network, and its name to those that are started afterwards."""
        number = len(self._hosts)
        space, cable = f"{self._name}n{number}", f"{self._name}v{number}"
        self._hosts[name] = f"{self._net}.{number + 2}"
        _ip(f"netns add {space}")
        _ip(f"link add {cable} master {self._name} type veth peer name eth0 netns {space}")
        _ip(f"link set {cable} up")
        _ip(f"-n {space} addr add {self._hosts[name]}/24 dev eth0")
        _ip(f"-n {space} link set eth0 up")
        _ip(f"-n {space} link set lo up")

    def container(
        self,
        image: Image,
        name: str,
        command: Sequence[str],
        *,
        port: int,
        env: Mapping[str, str],
    ) -> "Container":
        """A container that is ready when it listens on `port`; not started yet. `add` has given it its network."""
        place = self._folder / name
        hosts = "".join(f"{ip} {host}\n" for host, ip in self._hosts.items())
        return Container(
            image, command, place=place, hosts=f"127.0.0.1 localhost\n{hosts}", port=port, env=env,
            host=self._hosts[name], space=f"{self._name}n{list(self._hosts).index(name)}",
        )  # fmt: skip


class Container(Program):
    """A running container; `ip` is its address."""

    def __init__(
        self,
        image: Image,
        command: Sequence[str],
        *,
        place: Path,
        hosts: str,
        port: int,
        env: Mapping[str, str],
        host: str,
        space: str,
    ) -> None:
        self.image, self.ip = image, host
        self.data, own, root = place / "data", place / "own", place / "root"
        for folder in (self.data, own / "etc", root):
            folder.mkdir(parents=True, exist_ok=True)
        self.user = image.user.split(":")
        os.chown(self.data, *map(int, self.user))
        self.data.chmod(0o700)
        (own / ".dockerenv").touch()
        (own / "etc/hosts").write_text(hosts)
        self._env = [f"{key}={value}" for key, value in {**image.env, **env}.items()]
        (volume,) = image.volumes
        super().__init__(
            [
                "ip", "netns", "exec", space, "unshare", "--mount", "--pid", "--fork", "--kill-child",
                "sh", "-euc", _START, "sh", f"{own}:{image.lower}", root, self.data, volume,
                *self._inside([*image.entrypoint, *command]),
            ],
            log=place / "log", port=port, host=host,
        )  # fmt: skip

    def _inside(self, words: Sequence[str]) -> list[str]:
        user, group = self.user
        drop = [
            "setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all",
        ]  # fmt: skip
        return [*drop, "env", "-i", f"--chdir={self.image.folder}", *self._env, *words]

    @property
    def first(self) -> int:
        """The id, on this machine, of the container's process 1."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as its user, and return what it says."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--net", "--pid", "--root"]
        return run_program(*enter, *self._inside(words), status=None)

    def health(self) -> subprocess.CompletedProcess[str]:
        """The image's health check."""
        return self.run(self.image.health)

    def end(self, how: signal.Signals) -> int:
        """End its process 1, as docker stop and docker kill do; the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.first, how)
        return self.process.wait(60)


def _ip(words: str) -> None:
    run_program("ip", *words.split())


def needs(*programs: str) -> None:
    """Fail if this machine lacks a program, or we are not root."""
    missing = [program for program in programs if shutil.which(program) is None]
    assert not missing, f"apt-get install what has {', '.join(missing)}"
    assert os.geteuid() == 0, "namespaces are made by root"
