"""Three real brokers that elect their leader, and a nameserver."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import processes
from tests.support.members import send_to
from tests.support.processes import LOOPBACK, Program, free_port, wait_until

IDS = ("n0", "n1", "n2")
TOPIC = "orders"
PROBES = "probes"  # Topic of the sends that look for the leader.
OK, SEND_MESSAGE, NOT_LEADING = 0, 10, 14


class ElectedBrokers:
    """A nameserver and the members of a group.

    Attributes:
        folder: where their stores are, one folder below it for each.
        names: address of the nameserver.
        members: brokers by dLegerSelfId.
        pages: ports of their metrics.
    """

    def __init__(
        self,
        folder: Path,
        names: str,
        hosts: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """Describe them; `hosts` has the IP of each member's machine, None: they listen on loopback."""
        self.folder = folder
        self.names = names
        self._hosts = hosts or dict.fromkeys(IDS, LOOPBACK)
        peers = ";".join(f"{each}-{host}:{free_port()}" for each, host in self._hosts.items())
        self.settings = {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": "broker-a",
            "dLegerPeers": peers,
            "brokerId": None,
            **settings,
        }
        self.pages = {each: free_port() for each in IDS}
        self.members = {each: self.member(folder / each, each) for each in IDS}

    def member(self, folder: Path, own: str) -> Program:
        host = self._hosts[own]
        place = {"bindAddress": host, "brokerIP1": host, "dLegerSelfId": own}
        port = {"metricsPromExporterPort": self.pages[own]}
        return processes.broker(
            folder, self.names, settings={**self.settings, **place, **port}, host=host
        )

    def leader(self) -> str | None:
        """The member that takes messages; None if none does."""
        for name, program in self.members.items():
            with contextlib.suppress(OSError):
                if (
                    program.process is not None
                    and send_to(program.address, topic=PROBES)[0] == OK
                ):
                    return name
        return None

    def wait_for_leader(self, seconds: float = 30) -> str:
        found = wait_until(self.leader, seconds=seconds, what="a leader")
        assert found is not None
        return found


@contextlib.contextmanager
def elected_brokers(folder: Path, **settings: object) -> Iterator[ElectedBrokers]:
    """Three members that run; those that still do are stopped in the end."""
    with processes.nameserver(folder) as nameserver, contextlib.ExitStack() as running:
        group = ElectedBrokers(folder, nameserver.address, None, **settings)
        for program in group.members.values():
            running.enter_context(program)
        yield group
