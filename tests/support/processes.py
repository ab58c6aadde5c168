"""Real programs for tests: free ports, conf files, start, wait until it answers, stop, kill.

A program's output goes to a log file beside its conf file; where it does not come up, the error shows the
end of that log. Everything waits with a deadline and by looking, never by sleeping a fixed time.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cometmq.model.codes import RequestCode, ResponseCode
from tests.support.forks import Copy, begin
from tests.support.frames import ask

T = TypeVar("T")
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
LOOPBACK = "127.0.0.1"


def wait_until(look: Callable[[], T], *, seconds: float, what: str) -> T:
    """Look until the answer is true, more seldom the longer that takes: at most a tenth of it, and 0.1 s, too late; the answer.

    Raises:
        TimeoutError: it was not true within `seconds`.
    """
    began = time.monotonic()
    while True:
        if answer := look():
            return answer
        waited = time.monotonic() - began
        if waited > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(min(max(0.01, waited / 10), 0.1))


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


_given: set[int] = set()  # Whoever asks for several ports begins to listen later.


def free_port(*, beside: Sequence[int] = (0,)) -> int:
    """A port that is free now and was not given before, with the ports at the distances `beside` free too.

    It lies below the range from which the kernel takes ports for outgoing connections, so that none of
    those takes it before the program does.
    """
    while True:
        port = random.randrange(10_100, 32_000)
        wanted = {port + distance for distance in beside}
        if wanted.isdisjoint(_given) and all(map(is_free, wanted)):
            _given.update(wanted)
            return port


def broker_port() -> int:
    """A free port for a broker: a Java broker also takes its port - 2 (VIP) and + 1 (replication)."""
    return free_port(beside=(-2, -1, 0, 1))


def write_conf(path: Path, settings: Mapping[str, object]) -> Path:
    """A Java properties file, as RocketMQ's programs read it; without those that are None.

    Only its owner may read it: it may hold secrets.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}={value}\n" for key, value in settings.items() if value is not None]
    path.write_text("".join(lines))
    path.chmod(0o600)
    return path


class Program:
    """One running program; leaving the `with` block stops it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        port: int,
        env: Mapping[str, str] | None = None,
        own_group: bool = False,
        is_ready: Callable[[], object] = lambda: True,
        host: str = LOOPBACK,
    ) -> None:
        """Describe it; it listens on `host`, `own_group` makes it and its children a process group of their own.

        `is_ready` says, once it accepts connections, whether tests may begin.
        """
        self.command = [str(part) for part in command]
        self.log = log
        self.port = port
        self.env = {**os.environ, **(env or {})}
        self.own_group = own_group
        self.is_ready = is_ready
        self.host = host
        self.process: subprocess.Popen[bytes] | Copy | None = None
        self.log_size_before = 0  # Bytes that earlier runs wrote.

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> "Program":
        """Start it, and wait until it accepts connections and is ready."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.log_size_before = log.tell()
            file = log.fileno()
            self.process = begin(
                self.command,
                stdout=file,
                stderr=file,
                env=self.env,
                group=0 if self.own_group else None,
            )
        try:
            wait_until(self.came_up, seconds=START_SECONDS_MAX, what=f"port {self.port}")
        except BaseException:
            self.kill()
            raise
        return self

    def came_up(self) -> bool:
        assert self.process is not None
        if (status := self.process.poll()) is not None:
            raise RuntimeError(f"{self.command} ended with {status}:\n{self.last_lines()}")
        return answers(self.port, self.host) and bool(self.is_ready())

    def has_booted(self) -> bool:
        """Whether this run has said "boot success", as RocketMQ's programs do behind every other line of a start."""
        return b"boot success" in self.log.read_bytes()[self.log_size_before :]

    def last_lines(self, count: int = 30) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])

    def stop(self) -> int:
        """End it in order (SIGTERM); its exit status."""
        return self.end(signal.SIGTERM)

    def kill(self) -> int:
        """End it as a power cut would (SIGKILL)."""
        return self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS_MAX)
            raise

    def __enter__(self) -> "Program":
        return self if self.process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def nameserver(folder: Path, *, port: int | None = None, **settings: object) -> Program:
    """Our nameserver, from the command line and a Java conf file; not yet started.

    It listens on loopback, also in a container; a test of the address that it finds itself gives `bindAddress=None`.
    """
    port = port or free_port()
    ours = {
        "listenPort": port,
        "bindAddress": LOOPBACK,
        # Its default is a file in the user's home, as in Java.
        "kvConfigPath": folder / "kvConfig.json",
    }
    conf = write_conf(folder / "namesrv.conf", {**ours, **settings})
    command = [sys.executable, "-m", "cometmq.nameserver", "-c", str(conf)]
    return Program(command, log=folder / "nameserver.log", port=port)


def broker(
    folder: Path,
    nameservers: str,
    *,
    port: int | None = None,
    settings: Mapping[str, object] | None = None,
    host: str = LOOPBACK,
) -> Program:
    """Our broker, from the command line and a Java conf file; not yet started.

    `settings` are RocketMQ's keys; they go over those that every test wants, and None leaves one out. It listens on loopback,
    also in a container, unless they have `bindAddress` or `brokerIP1`. It is started when it has said so and, where its
    nameserver runs, the nameserver knows it: it listens a moment before.
    """
    port = port or broker_port()
    settings = settings or {}
    conf = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "namesrvAddr": nameservers,
        "listenPort": port,
        "bindAddress": None if "brokerIP1" in settings else LOOPBACK,
        "storePathRootDir": folder / "store",
        "storePathCommitLog": folder / "store" / "commitlog",
        "mappedFileSizeCommitLog": 64 * 1024 * 1024,
        "metricsPromExporterPort": 0,  # Many run at a time.
        # A busy test machine is no reason to refuse: by default what waited 1,000 ms is.
        "osPageCacheBusyTimeOutMills": 10_000,
        **settings,
    }
    command = [
        sys.executable,
        "-m",
        "cometmq.broker",
        "-c",
        str(write_conf(folder / "broker.conf", conf)),
    ]

    def is_ready() -> bool:
        return program.has_booted() and is_known_to(nameservers, f"{host}:{port}")

    program = Program(
        command, log=folder / "broker.log", port=port, is_ready=is_ready, host=host
    )
    return program


def proxy(folder: Path, nameservers: str, *, port: int, **settings: object) -> Program:
    """Our gRPC proxy of a cluster, from the command line and a rmq-proxy.json; not yet started.

    Several may have the same port; each is ready when it has said so, whatever the others do.
    """
    conf = {"namesrvAddr": nameservers, "grpcServerPort": port, "bindAddress": LOOPBACK}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rmq-proxy.json"
    file.write_text(json.dumps({**conf, **settings}))
    file.chmod(0o600)
    command = [sys.executable, "-m", "cometmq.cli", "proxy", "-c", str(file)]

    def is_ready() -> bool:
        return b"startup successfully" in program.log.read_bytes()[program.log_size_before :]

    program = Program(command, log=folder / "proxy.log", port=port, is_ready=is_ready)
    return program


def is_known_to(nameservers: str, address: str) -> bool:
    """Whether the first of them knows the broker at that address, does not run, or does not tell strangers."""
    first = nameservers.split(";", maxsplit=1)[0]
    if not first or not answers(int(first.rpartition(":")[2])):
        return True
    try:
        header, body = ask(first, RequestCode.GET_BROKER_CLUSTER_INFO)
    except ConnectionError:  # It speaks TLS alone.
        return True
    return header["code"] != ResponseCode.SUCCESS or address.encode() in body
