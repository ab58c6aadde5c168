"""A simulated group: its hosts, clients that write, and faults that a scene may cause."""

from collections.abc import Callable
from contextlib import suppress

from cometmq.replication.group.member import NotAllowed, RaftMember, RaftRole
from cometmq.replication.group.messages import Membership
from tests.sim.checks import Checks
from tests.sim.host import Host
from tests.sim.world import NetworkFaults, World

HEALED_MS = 20_000.0  # Time without faults at the end of each run, in which the group must become whole again.


class Group:
    """A group in a world.

    Attributes:
        world: Time, network and chance.
        checks: What was seen.
        hosts: All hosts by id, also of those that are not members yet.
        is_sync_flush: Whether members acknowledge only what is flushed.
    """

    def __init__(
        self, seed: int, *, voters: int = 3, spare: int = 0, is_sync_flush: bool | None = None
    ) -> None:
        self.world = World(seed)
        chance = self.world.chance
        self.is_sync_flush = chance.random() < 0.5 if is_sync_flush is None else is_sync_flush
        self.checks = Checks()
        names = [f"n{number}" for number in range(voters + spare)]
        membership = Membership(tuple(names[:voters]))
        self.hosts = {
            name: Host(
                name, self.world, self.checks, membership, is_sync_flush=self.is_sync_flush
            )
            for name in names
        }
        for host in self.hosts.values():
            host.peers = self.hosts
        self._written = 0
        self._is_writing = True
        for name in names[:voters]:
            self.hosts[name].start()

    @property
    def trace(self) -> str:
        """Hash of all that happened."""
        return str(self.world.trace)

    @property
    def leader(self) -> Host | None:
        """The host that leads in the latest term, if any does."""
        leading = [each for each in self.hosts.values() if _leads(each.member)]
        return max(
            leading, key=lambda each: each.member.term if each.member else 0, default=None
        )

    @property
    def is_led(self) -> bool:
        """Whether any host leads."""
        return self.leader is not None

    @property
    def follower(self) -> Host:
        """One of the hosts that do not lead, by chance."""
        return self.world.chance.choice(
            [each for each in self.hosts.values() if each is not self.leader]
        )

    def write_at_random(self, period_ms: float = 60.0) -> None:
        """Let clients write to random hosts, until the group is checked."""
        chance = self.world.chance
        if not self._is_writing:
            return
        for _ in range(chance.randint(1, 4)):
            self._written += 1
            host = self.hosts[chance.choice([*self.hosts])]
            host.write(self._written, chance.randint(50, 700))
        self.world.after(
            chance.uniform(0, 2 * period_ms), lambda: self.write_at_random(period_ms)
        )

    def write(self, count: int, *, size: int = 100) -> None:
        """Write some records to the leader."""
        for _ in range(count):
            self._written += 1
            if self.leader is not None:
                self.leader.write(self._written, size)

    def run(self, ms: float) -> None:
        """Let so much simulated time pass."""
        self.world.run(self.world.now + ms)

    def later(self, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        """Do something after a random time."""
        self.world.after(self.world.chance.uniform(low_ms, high_ms), action)

    def cut_off(self, name: str, *, inwards: bool = True, outwards: bool = True) -> None:
        """Cut a member off from all others."""
        self.world.note("cut", name, inwards, outwards)
        for other in self.hosts:
            if other != name:
                self.world.cuts |= {(other, name)} if inwards else set()
                self.world.cuts |= {(name, other)} if outwards else set()

    def divide(self, side: set[str]) -> None:
        """Cut some members off from all others, but not from each other."""
        self.world.note("divide", sorted(side))
        for other in self.hosts.keys() - side:
            for name in side:
                self.world.cuts |= {(name, other), (other, name)}

    def rejoin(self) -> None:
        """Mend all connections."""
        self.world.note("mend")
        self.world.cuts.clear()

    def change(self, membership: Membership) -> None:
        """Ask the leader for another membership, which it may refuse."""
        if self.leader is not None:
            self.leader.put(lambda member: _if_allowed(lambda: member.change(membership)))

    def amend(self, change: Callable[[Membership, RaftMember], Membership]) -> None:
        """Ask the leader for a change of its membership, which may be refused."""
        if self.leader is not None:
            self.leader.put(
                lambda member: _if_allowed(
                    lambda: member.change(change(member.log.membership, member))
                )
            )

    def hand_over(self, to: str) -> None:
        """Ask the leader to hand over, and to stay if that takes a second."""
        leader = self.leader
        if leader is not None:
            leader.put(lambda member: _if_allowed(lambda: member.hand_over(to, leader.now())))
            self.world.after(1_000, lambda: leader.put(lambda member: member.stay()))

    def heal(self) -> None:
        """End all faults, and check that the group is whole: one leader, one log, nothing lost, new records acknowledged."""
        self.rejoin()
        self.world.faults = NetworkFaults()
        for host in self.hosts.values():
            host.disk.is_failing = False
            host.resume()
            host.start()
        self.run(HEALED_MS / 2)
        self._is_writing = False
        before = self.checks.acknowledged_count
        assert self.leader is not None, "nobody leads the healed group"
        self.write(5)
        self.run(HEALED_MS / 2)
        leader = self.leader
        assert leader is not None, "the healed group lost its leader"
        assert leader.member is not None
        assert self.checks.acknowledged_count > before, "the healed group acknowledges nothing"
        end = leader.member.log.commit
        for name in leader.member.log.membership.everyone:
            host = self.hosts[name]
            assert host.member is not None
            assert host.member.log.commit == end, (
                f"{name} is at {host.member.log.commit}, not {end}"
            )
            self.checks.holds_all(name, host.disk.files)


def _leads(member: RaftMember | None) -> bool:
    return member is not None and member.role is RaftRole.LEADER


def _if_allowed(action: Callable[[], None]) -> None:
    with suppress(NotAllowed):
        action()
