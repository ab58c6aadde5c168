"""Several brokers of one cluster on this machine, each in its own process, with their nameserver on the running loop.

A broker has one event loop, so it uses about one and a half cores. More cores are used by more brokers, which share
nothing: each is the program `cometmq broker` with its own ports, store and log file. A producer spreads its messages
over the queues of all of them (`several_brokers`). Or they are the members of a group that elects its leader
(`group_members`), which keep one log.

The brokers are children of this process. Each stops in order at the end of its standard input (embedded.child): when
`LocalCluster.close` closes the pipe, and when this process dies.
"""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Self

from cometmq.broker.settings.broker_settings import LOOPBACK
from cometmq.embedded.pair import BROKER_NAME, LOG_FILE_SIZE, STORE_FOLDER, start_nameserver
from cometmq.model.errors import NetError, SettingsError
from cometmq.model.route import MASTER_ID, BrokerData
from cometmq.nameserver.server import NameServer
from cometmq.process.log_file import FILE as LOG_VARIABLE

BROKERS_MAX = len(ascii_lowercase)  # broker-a to broker-z.
# Between the ports of two brokers. Beside its port a broker uses the one 2 below (old clients) and 1 above (slaves).
PORT_DISTANCE = 10
METRICS_PORT = 5557  # The default of metricsPromExporterPort, for broker-a; the others follow.
_PORT_MAX = 65_535
_PREFIX = BROKER_NAME[:-1]
_LOOK_SECONDS = 0.02
_LAST_LINES = 10
_LAST_BYTES = 8_192


class BrokerProcess:
    """A broker of a `LocalCluster`, in its own process.

    Attributes:
        name: Its brokerName, or its dLegerSelfId in a group that elects its leader.
        is_member: Whether it is a member of such a group.
        log: Its log file, which also has what it prints.
        address: "host:port" for clients; empty before it is registered if it has any free port.
    """

    def __init__(
        self, name: str, store: Path, index: int, port: int, member_of: str | None = None
    ) -> None:
        """Describe the broker; it is not started.

        Args:
            name: The brokerName or, in a group that elects its leader, the dLegerSelfId.
            store: Its store directory; the log file is next to it.
            index: Its number in the cluster, from 0.
            port: Its port; 0: any free port, and no pages of metrics.
            member_of: The value of dLegerPeers, if it is a member of a group that elects its leader.
        """
        self.name = name
        self.is_member = member_of is not None
        self.log = store.parent / f"{name}.log"
        self.address = f"{LOOPBACK}:{port}" if port else ""
        self._broker_name = BROKER_NAME if self.is_member else name
        self._settings: dict[str, object] = {
            "--broker-name": self._broker_name,
            "--bind-address": LOOPBACK,
            "--listen-port": port,
            "--store-path-root-dir": store.absolute(),
            "--mapped-file-size-commit-log": LOG_FILE_SIZE,
            "--metrics-exporter-type": "PROM" if port else "DISABLE",
            "--metrics-prom-exporter-port": METRICS_PORT + index,
        }
        if member_of is not None:
            self._settings |= {
                "--enable-dleger-commit-log": "true",
                "--d-leger-peers": member_of,
                "--d-leger-self-id": name,
            }
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0

    @property
    def command(self) -> str:
        """The command that starts this broker alone, for a shell."""
        return shlex.join(["cometmq", "broker", *self._flags()])

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs and before its start."""
        return None if self._process is None else self._process.returncode

    @property
    def how_it_ended(self) -> str:
        """The exit status in words, "was killed by SIGKILL" or "ended with status 3"."""
        status = self.status or 0
        if status >= 0:
            return f"ended with status {status}"
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"

    async def start(self, nameserver: str) -> None:
        """Start the process, which registers at a nameserver; raise OSError if it or its log file cannot be created."""
        self._settings["--namesrv-addr"] = nameserver
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "cometmq.embedded.child", *self._flags()),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, LOG_VARIABLE: str(self.log.absolute())},
                start_new_session=True,  # Ctrl-C reaches the parent alone, which stops all in order.
            )

    def _flags(self) -> list[str]:
        return [str(part) for setting in self._settings.items() for part in setting]

    def is_served(self, groups: Mapping[str, BrokerData]) -> bool:
        """Return whether it is in the routes of a nameserver, and its name has a master; if so, `address` is set."""
        group = groups.get(self._broker_name)
        addresses = {} if group is None else group.addresses
        if MASTER_ID not in addresses or self.address not in ("", *addresses.values()):
            return False
        self.address = self.address or addresses[MASTER_ID]
        return True

    async def ended(self) -> None:
        """Wait until the process has ended; return at once if it was not started."""
        if self._process is not None:
            await self._process.wait()

    def ask_to_stop(self) -> None:
        """Let the broker stop in order: it flushes its data and ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def last_lines(self) -> list[str]:
        """Return the last lines that this process wrote to its log file, at most ten."""
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            # A file that was rotated meanwhile is shorter than at the start.
            start = self._log_start if self._log_start <= size else 0
            log.seek(max(start, size - _LAST_BYTES))
            text = log.read().decode(errors="replace").strip("\n")
        return text.split("\n")[-_LAST_LINES:] if text else []


class LocalCluster:
    """A nameserver on the running loop and several brokers as processes, from `start` to `close` or in an `async with` block.

    Args:
        data_dir: Directory of all files, created if missing and kept.
        brokers: The brokers, not started yet, of `several_brokers` or `group_members`.
        nameserver_port: Port of the nameserver; 0 selects a free one.

    Attributes:
        nameserver: "host:port" of the nameserver, for clients; empty before the start.
        brokers: The brokers.
        data_dir: The directory.
    """

    def __init__(
        self, data_dir: Path, brokers: list[BrokerProcess], *, nameserver_port: int = 0
    ) -> None:
        self.nameserver = ""
        self.data_dir = data_dir
        self.brokers = brokers
        self._nameserver_port = nameserver_port
        self._running: NameServer | None = None

    async def start(self) -> None:
        """Start the nameserver and all brokers; all accept clients when this returns.

        Raises:
            NetError: The nameserver's port cannot be opened, or a broker ended before it was registered; its message
                and log file are named. The others are stopped.
            CodecError, OSError: A file or directory cannot be created or read.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        try:
            self._running = await start_nameserver(self.data_dir, self._nameserver_port)
            self.nameserver = self._running.address
            for broker in self.brokers:
                await broker.start(self.nameserver)
            await asyncio.gather(
                *(self._registered(broker, self._running) for broker in self.brokers)
            )
        except BaseException:
            await self.close()
            raise

    async def _registered(self, broker: BrokerProcess, nameserver: NameServer) -> None:
        """Wait until a broker is registered, as it is once clients can connect; raise NetError if it ends before."""
        while not broker.is_served(nameserver.routes.groups):
            if broker.status is not None:
                lines = broker.last_lines()
                raise NetError(
                    f"{broker.name} {broker.how_it_ended} during its start: {lines[-1] if lines else 'it printed nothing'} "
                    f"(log: {broker.log})"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def watch(self, on_end: Callable[[BrokerProcess], object]) -> None:
        """Call back for each broker that ends; return when all have ended. The other brokers continue."""

        async def look(broker: BrokerProcess) -> None:
            await broker.ended()
            on_end(broker)

        await asyncio.gather(*map(look, self.brokers))

    def failed(self) -> list[str]:
        """Return name and end of each broker that did not stop in order, "broker-b was killed by SIGKILL"."""
        # SIGTERM ends a broker so only at the very start, when it has opened nothing.
        in_order = (None, 0, -signal.SIGTERM)
        return [
            f"{each.name} {each.how_it_ended}"
            for each in self.brokers
            if each.status not in in_order
        ]

    async def close(self) -> None:
        """Stop all brokers, which flush their data, wait for their end, and then stop the nameserver."""
        for broker in self.brokers:
            broker.ask_to_stop()
        for broker in self.brokers:
            await broker.ended()
        if self._running is not None:
            await self._running.close()
            self._running = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def several_brokers(data_dir: Path, count: int, port: int) -> list[BrokerProcess]:
    """Return broker-a, broker-b and so on, at most 26, with stores in a directory; broker-a has the store of an `AsyncEmbedded`.

    Args:
        data_dir: The directory.
        count: Number of brokers.
        port: Port of broker-a; each further broker has the next one 10 above. 0 selects free ones for all.

    Raises:
        SettingsError: The last broker would have no valid port.
    """
    ports = _ports(count, port) if port else [0] * count
    return [
        BrokerProcess(
            _PREFIX + ascii_lowercase[index], _store_of(data_dir, index), index, ports[index]
        )
        for index in range(count)
    ]


def group_members(data_dir: Path, count: int, port: int) -> list[BrokerProcess]:
    """Return the members n0, n1 and so on of a group that elects its leader, with stores in a directory.

    Each serves the other members at the port above its own, which brokers without a group have for slaves.

    Args:
        data_dir: The directory.
        count: Number of members, 3 to 9.
        port: Port of n0; each further member has the next one 10 above.

    Raises:
        SettingsError: The last member would have no valid port, or `port` is 0: members must know each other's ports.
    """
    if not port:
        raise SettingsError(
            "members of a group must know each other's ports: use a --broker-port above 0"
        )
    ports = _ports(count, port)
    peers = ";".join(f"n{index}-{LOOPBACK}:{own + 1}" for index, own in enumerate(ports))
    return [
        BrokerProcess(f"n{index}", data_dir / f"{STORE_FOLDER}-n{index}", index, own, peers)
        for index, own in enumerate(ports)
    ]


def _ports(count: int, first: int) -> list[int]:
    ports = [first + PORT_DISTANCE * index for index in range(count)]
    if ports[-1] > _PORT_MAX:
        raise SettingsError(
            f"{count} brokers from port {first} on need ports up to {ports[-1]}, and {_PORT_MAX} is the highest: "
            "use a lower --broker-port"
        )
    return ports


def _store_of(data_dir: Path, index: int) -> Path:
    """Return the store directory of a broker by its number: 0 is `store`, as for an `AsyncEmbedded`, 1 is `store-b`."""
    return data_dir / (f"{STORE_FOLDER}-{ascii_lowercase[index]}" if index else STORE_FOLDER)


def idle_stores(data_dir: Path, count: int) -> Iterator[tuple[int, str, Path]]:
    """Yield (number of brokers that run it, name, directory) of each store that the first `count` brokers do not use."""
    for index in range(count, BROKERS_MAX):
        if (store := _store_of(data_dir, index)).exists():
            yield index + 1, _PREFIX + ascii_lowercase[index], store


def member_stores(data_dir: Path) -> list[Path]:
    """Return the existing stores of members of a group that elects its leader."""
    return sorted(data_dir.glob(f"{STORE_FOLDER}-n[0-9]"))
