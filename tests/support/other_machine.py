"""A second machine for a test: a network namespace with a cable to this one.

with OtherMachine() as other:
    other.here      # the address of this machine, as the other one knows it
    other.there     # the address of the other one
    other.call(lambda: socket.create_connection((other.here, port)))

Several of them reach each other after `reach_others` of each; then this machine is the router between them, and `drop` and
`unplug` cut them off.
"""

import ctypes
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self, TypeVar

import pytest

from tests.support.programs import run_program

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


class OtherMachine:
    """The namespace; leaving the block takes it away. Skips the test where nobody may make one."""

    def __init__(self) -> None:
        # 198.18.0.0/15 is kept for tests of networks.
        number = random.randrange(1 << 14)
        net = f"198.{18 + (number >> 13)}.{number >> 6 & 127}.{(number & 63) * 4}"
        front, last = net.rsplit(".", 1)
        self.here = f"{front}.{int(last) + 1}"
        self.there = f"{front}.{int(last) + 2}"
        self._name = f"cmq{os.getpid()}x{number}"
        self._cable = f"cmq{number}"

    def __enter__(self) -> Self:
        if os.geteuid() or shutil.which("ip") is None:
            pytest.skip("a network namespace is made by root, with the command ip")
        try:
            _ip(f"netns add {self._name}")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace: {error.stderr}")
        try:
            self._plug_in()
        except BaseException:
            self._remove()
            raise
        return self

    def _plug_in(self) -> None:
        _ip(f"link add {self._cable} type veth peer name cable netns {self._name}")
        _ip(f"addr add {self.here}/30 dev {self._cable}")
        _ip(f"link set {self._cable} up")
        _ip(f"-n {self._name} addr add {self.there}/30 dev cable")
        _ip(f"-n {self._name} link set cable up")
        _ip(f"-n {self._name} link set lo up")

    def reach_others(self) -> None:
        """Pass packets on between this namespace and others for which the same was called."""
        Path(f"/proc/sys/net/ipv4/conf/{self._cable}/forwarding").write_text("1")
        self._add_route()

    def _add_route(self) -> None:
        _ip(f"-n {self._name} route add default via {self.here}")

    def unplug(self) -> None:
        """Pull the cable: it is cut off from this machine and from the others."""
        _ip(f"-n {self._name} link set cable down")

    def plug_in_again(self) -> None:
        """Undo `unplug`, after `reach_others`."""
        _ip(f"-n {self._name} link set cable up")
        self._add_route()

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        _ip(f"netns del {self._name}")

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command that runs another one there, as the same process."""
        return ["ip", "netns", "exec", self._name, *map(str, words)]

    def call(self, work: Callable[[], T]) -> T:
        """Do something there: what opens sockets opens them on the other machine."""
        done: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                _enter(self._name)
                done.append(work())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]


@contextmanager
def dropped(paths: Iterable[tuple[OtherMachine, OtherMachine]]) -> Iterator[None]:
    """Lose all packets from the first to the second machine of each path, without a word to the sender."""
    with ExitStack() as undo:
        for sender, receiver in paths:
            path = f"from {sender.there} to {receiver.there} blackhole"
            _ip(f"rule add {path}")
            undo.callback(_ip, f"rule del {path}")
        yield


def _enter(name: str) -> None:
    """Move this thread, and no other, into the namespace; it ends there."""
    with open(f"/run/netns/{name}") as namespace:  # noqa: PTH123
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def _ip(words: str) -> None:
    run_program("ip", *words.split())
