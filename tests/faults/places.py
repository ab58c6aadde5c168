"""A group whose members have a machine and a disk each, and what can happen to those.

Machines are network namespaces with a cable to this machine, which is the router between them; disks are file systems of
their own in loop devices. Where this machine forbids one of them, the members are on this machine or its disk, `missing` says so, and
the test fails unless FAULTS=some.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.elected_group import IDS, ElectedBrokers
from tests.support.loop_disk import LoopDisk, full
from tests.support.members import end_of
from tests.support.other_machine import OtherMachine, dropped
from tests.support.processes import LOOPBACK, wait_until
from tests.support.programs import halted

DISK_MEGABYTES = 2_048  # Sparse.
LAG_MAX = 64 << 10  # Bytes that a member may lack to count as caught up, as sends go on.
SETTLED_SECONDS_MAX = 60


class PlacedGroup:
    """The group, its machines and its disks.

    Attributes:
        brokers: the members and the nameserver.
        missing: kinds of places that this machine forbids, with the reason.
        without_majority: periods in which no majority was there.
    """

    def __init__(self, brokers: ElectedBrokers) -> None:
        self.brokers = brokers
        self.machines: dict[str, OtherMachine] = {}
        self.disks: dict[str, LoopDisk] = {}
        self.missing: dict[str, str] = {}
        self.without_majority: list[tuple[float, float]] = []

    def start(self, member: str) -> None:
        program = self.brokers.members[member]
        if machine := self.machines.get(member):
            machine.call(program.start)
        else:
            program.start()

    def wait_until_settled(self) -> str:
        """Wait until a member leads, and all run and have what it has; the leader."""
        found = wait_until(self._settled, seconds=SETTLED_SECONDS_MAX, what="a whole group")
        assert found is not None
        return found

    def _settled(self) -> str | None:
        leader = self.brokers.leader()
        for name, program in self.brokers.members.items():
            assert program.process is not None
            status = program.process.poll()
            assert status is None, f"{name} ended with {status}: {program.last_lines()}"
        if leader is None:
            return None
        with contextlib.suppress(OSError):
            ends = [self.end_of(name) for name in self.brokers.members]
            if self.end_of(leader) - min(ends) <= LAG_MAX:
                return leader
        return None

    def end_of(self, member: str) -> int:
        """Where the log of a member ends, which it only says on its own machine."""
        address = self.brokers.members[member].address
        machine = self.machines.get(member)
        return end_of(address) if machine is None else machine.call(lambda: end_of(address))

    # --- what can happen; each returns when it is over

    def kill(self, member: str, seconds: float) -> None:
        self.brokers.members[member].kill()
        time.sleep(seconds)
        self.start(member)

    def pause(self, member: str, seconds: float) -> None:
        with halted(self.brokers.members[member]):
            time.sleep(seconds)

    def kill_all(self, _member: str, seconds: float) -> None:
        began = time.monotonic()
        for program in self.brokers.members.values():
            program.process.kill()  # type: ignore[union-attr]
        for program in self.brokers.members.values():
            program.kill()
        time.sleep(seconds)
        for count, name in enumerate(self.brokers.members, 1):
            self.start(name)
            if count == len(IDS) // 2 + 1:
                self.without_majority.append((began, time.monotonic()))

    def fill_disk(self, member: str, seconds: float) -> None:
        """If a flush fails, too, the member must be restarted when there is room, and says so."""
        with full(self.disks[member].root):
            time.sleep(seconds)
        program = self.brokers.members[member]
        log = program.log.read_bytes()[program.log_size_before :]
        if b"takes no part in its group any more, until it is restarted" in log:
            program.kill()
            self.start(member)

    def unplug(self, member: str, seconds: float) -> None:
        """Nobody reaches it: no member, no client and no nameserver."""
        self.machines[member].unplug()
        try:
            time.sleep(seconds)
        finally:
            self.machines[member].plug_in_again()

    def isolate(self, member: str, seconds: float) -> None:
        """It does not reach the other members, nor they it; clients and nameservers reach all."""
        others = self._others(member)
        self._drop(
            [*((member, each) for each in others), *((each, member) for each in others)],
            seconds,
        )

    def mute(self, member: str, seconds: float) -> None:
        """The others do not hear it; it hears them."""
        self._drop([(member, each) for each in self._others(member)], seconds)

    def deafen(self, member: str, seconds: float) -> None:
        """It does not hear the others; they hear it."""
        self._drop([(each, member) for each in self._others(member)], seconds)

    def cut_one_link(self, member: str, seconds: float) -> None:
        """It and one other member do not hear each other; both hear the third one."""
        other = self._others(member)[0]
        self._drop([(member, other), (other, member)], seconds)

    def _others(self, member: str) -> list[str]:
        return [each for each in IDS if each != member]

    def _drop(self, paths: Sequence[tuple[str, str]], seconds: float) -> None:
        with dropped((self.machines[one], self.machines[two]) for one, two in paths):
            time.sleep(seconds)


@contextmanager
def placed_group(folder: Path, **settings: object) -> Iterator[PlacedGroup]:
    """Three members that run, each on a machine and a disk of its own."""
    with ExitStack() as stack:
        missing: dict[str, str] = {}
        machines: dict[str, OtherMachine] = {}
        disks: dict[str, LoopDisk] = {}
        try:
            machines = _machines(stack)
        # `skip` of OtherMachine is no reason to skip what needs no network.
        except (OSError, pytest.skip.Exception) as error:
            missing["network"] = str(error)
        try:
            disks = _disks(stack, folder)
        except RuntimeError as error:
            missing["disk"] = str(error)
        here = machines[IDS[0]].here if machines else LOOPBACK
        names = processes.nameserver(folder, bindAddress=here)
        names.host = here
        stack.enter_context(names)
        hosts = {each: machine.there for each, machine in machines.items()}
        brokers = ElectedBrokers(folder, names.address, hosts or None, **settings)
        group = PlacedGroup(brokers)
        group.machines, group.disks, group.missing = machines, disks, missing
        for name, program in brokers.members.items():
            group.start(name)
            stack.enter_context(program)
        yield group


def _machines(stack: ExitStack) -> dict[str, OtherMachine]:
    machines = {each: stack.enter_context(OtherMachine()) for each in IDS}
    for each in machines.values():
        each.reach_others()
    return machines


def _disks(stack: ExitStack, folder: Path) -> dict[str, LoopDisk]:
    disks: dict[str, LoopDisk] = {}
    for each in IDS:
        disk = LoopDisk(folder / each / "disk", megabytes=DISK_MEGABYTES)
        disks[each] = stack.enter_context(disk)
        (disk.root / "store").mkdir()
        (folder / each / "store").symlink_to(disk.root / "store")
    return disks
