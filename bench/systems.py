"""The three that are compared: the Java broker, CometMQ, and the floor (a server that keeps nothing)."""

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.load import loadgen
from tests.interop import reference
from tests.support import processes
from tests.support.frames import parts_of, read_frame
from tests.support.load import send_frame
from tests.support.processes import Program

JAVA, COMETMQ, FLOOR, KAFKA, REDIS = "java", "cometmq", "floor", "kafka", "redis"
BEFORE = "before"  # An older tree of ours.
# Both brokers, as a user would run them; all else is the default of either.
SETTINGS = {"autoCreateTopicEnable": "true", "defaultTopicQueueNums": 4}
# RocketMQ's own start script takes 8 GB; on 2 cores 2 GB is what it needs not to be held back.
JAVA_HEAP = "2g"
LOG_FILE_SIZE = 1 << 30  # RocketMQ's default, for both


@dataclass(frozen=True, slots=True)
class Running:
    """A system that answers: where, and whose processor time counts."""

    name: str
    nameserver: str  # "" for the floor
    broker: Program
    start_seconds: float  # from an empty folder to the first answered send

    @property
    def group(self) -> int:
        return self.broker.pid


def environment_of(python: Path | str) -> dict[str, str]:
    """The environment for a Python: the one of another tree finds its own packages, not those that PYTHONPATH names here."""
    others = {} if str(python) == sys.executable else {"PYTHONPATH": ""}
    return {**os.environ, **others}


@contextmanager
def running(system: str, folder: Path, **settings: object) -> Iterator[Running]:
    """Start a system on an empty folder, a broker with these settings; stop it hard in the end."""
    started: list[Program] = []
    try:
        if system == FLOOR:
            yield floor(folder, started)
        else:
            yield broker(system, folder, started, settings)
    finally:
        for program in reversed(started):
            program.kill()


def floor(folder: Path, started: list[Program]) -> Running:
    """`loadgen floor`: answers each frame at once."""
    port = processes.free_port()
    program = Program(
        [loadgen(), "floor", f"127.0.0.1:{port}"],
        log=folder / "floor.log",
        port=port,
        own_group=True,
    )
    started.append(program.start())
    return Running(FLOOR, "", program, 0.0)


def broker(
    system: str, folder: Path, started: list[Program], special: Mapping[str, object]
) -> Running:
    """A nameserver and a broker of one make; the broker's start is timed."""
    nameserver = reference.nameserver if system == JAVA else processes.nameserver
    names = nameserver(folder / "nameserver")
    started.append(names.start())
    program = broker_program(system, folder / "broker", names.address, special)
    program.is_ready = lambda: True  # The first answered send counts, not the registration.
    from_here = time.monotonic()
    started.append(program.start())
    first_answered_send(program)
    seconds = time.monotonic() - from_here
    reference.wait_registered(names.address)
    return Running(system, names.address, program, seconds)


def broker_program(
    system: str, folder: Path, names: str, special: Mapping[str, object]
) -> Program:
    """A broker of one make with these settings, not started yet; in a process group of its own, whose processor time counts."""
    settings = {**SETTINGS, "mappedFileSizeCommitLog": LOG_FILE_SIZE, **special}
    if system == JAVA:
        make = reference.broker
        if port := settings.pop("grpcServerPort", None):  # Java's broker has a proxy for it.
            make = partial(reference.proxy, grpc_port=int(str(port)))
        program = make(folder, names, heap=JAVA_HEAP, settings=settings, options=())
    else:
        program = processes.broker(folder, names, settings=settings)
        # What is installed has its bytecode, whatever a developer's shell says about writing it.
        program.env["PYTHONDONTWRITEBYTECODE"] = ""
    program.own_group = True
    return program


def first_answered_send(program: Program) -> None:
    """Send one message until it is stored; a broker that listens may still refuse for a moment."""
    frame = send_frame("FirstSend", b"x" * 128, opaque=1, queue_id=0)

    def is_stored() -> bool:
        with socket.create_connection(("127.0.0.1", program.port), timeout=5) as peer:
            peer.sendall(frame)
            return b'"code":0' in parts_of(read_frame(peer))[1].replace(b" ", b"")

    processes.wait_until(is_stored, seconds=30, what="the first answered send")
