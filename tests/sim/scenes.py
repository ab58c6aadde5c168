"""What happens to simulated groups: storms of random faults, and what DLedger's users met."""

from collections.abc import Callable

from cometmq.replication.group.changes import (
    with_learner,
    with_places,
    with_vote,
    without,
)
from cometmq.replication.group.member import RaftMember
from cometmq.replication.group.messages import MemberPlace, Membership
from cometmq.replication.terms import SlaveRates
from tests.sim.group import Group
from tests.sim.host import Host
from tests.sim.world import NetworkFaults

STORM_MS = 40_000.0


def storm(seed: int) -> Group:
    """All faults at random times, one or several at once, under writes."""
    group = Group(seed, spare=2)
    chance = group.world.chance
    group.write_at_random()
    for host in group.hosts.values():
        host.rate.rates = SlaveRates(most=chance.choice((None, 200_000)))
    group.world.faults = NetworkFaults(
        chance.choice([0.0, 0.0, 0.01, 0.1]), chance.choice([0.0, 0.02]), chance.choice([0.0, 0.02, 0.1])
    )  # fmt: skip
    chosen = [fault for fault in FAULTS if chance.random() < 0.6]
    while group.world.now < STORM_MS and chosen:
        group.run(chance.expovariate(1 / 900))
        chance.choice(chosen)(group, group.hosts[chance.choice([*group.hosts])])
    group.run(max(STORM_MS - group.world.now, 0))
    group.heal()
    return group


def _kill(group: Group, host: Host) -> None:
    host.kill()
    group.later(10, 5_000, host.start)


def _kill_leader(group: Group, host: Host) -> None:
    _kill(group, group.leader or host)


def _cut_power(group: Group, host: Host) -> None:
    """Cut the power of one machine. If members flush later than they acknowledge, two at a time may lose records."""
    others = [each for each in group.hosts.values() if each is not host]
    if not group.is_sync_flush and not all(each.is_sure for each in others):
        return
    host.cut_power()
    group.later(500, 6_000, host.start)


def _cut_power_of_all(group: Group, _host: Host) -> None:
    if group.is_sync_flush and group.world.chance.random() < 0.3:
        for each in group.hosts.values():
            _cut_power(group, each)


def _pause(group: Group, host: Host) -> None:
    host.pause()
    group.later(100, 4_000, host.resume)


def _pause_leader(group: Group, host: Host) -> None:
    _pause(group, group.leader or host)


def _set_clock_ahead(group: Group, _host: Host) -> None:
    if group.leader is not None:
        group.leader.set_clock_ahead(group.world.chance.uniform(100, 5_000))


def _cut_off(group: Group, host: Host) -> None:
    way = group.world.chance.choice([(True, True), (True, False), (False, True)])
    group.cut_off(host.own, inwards=way[0], outwards=way[1])
    group.later(200, 6_000, group.rejoin)


def _cut_one_pair(group: Group, host: Host) -> None:
    other = group.world.chance.choice([*group.hosts])
    group.world.note("cut pair", host.own, other)
    group.world.cuts |= {(host.own, other), (other, host.own)}
    group.later(200, 6_000, group.rejoin)


def _fail_disk(group: Group, host: Host) -> None:
    group.world.note("disk", host.own)
    host.disk.is_failing = True

    def mended() -> None:
        host.disk.is_failing = False
        host.start()

    group.later(500, 4_000, mended)


def _trim(group: Group, host: Host) -> None:
    host.trim(group.world.chance.random())


def _hand_over(group: Group, host: Host) -> None:
    group.hand_over(host.own)


def _change_members(group: Group, host: Host) -> None:
    """Add a member as a learner, let it vote, or remove it."""
    leader = group.leader
    if leader is None or leader.member is None:
        return
    now = leader.member.log.membership
    voters, learners = set(now.voters), set(now.learners)
    name = host.own
    if name in voters:
        if len(voters) <= 2:
            return
        voters.discard(name)
    elif name in learners:
        learners.discard(name)
        voters.add(name)
    else:
        learners.add(name)
        host.start()
    group.world.note("change", sorted(voters), sorted(learners))
    group.change(Membership(tuple(sorted(voters)), tuple(sorted(learners))))


FAULTS: tuple[Callable[[Group, Host], None], ...] = (
    _kill, _kill_leader, _cut_power, _cut_power_of_all, _pause, _pause_leader, _cut_off,
    _cut_one_pair, _fail_disk, _set_clock_ahead, _trim, _hand_over, _change_members,
)  # fmt: skip


def dledger_4_old_term(seed: int) -> Group:
    """DLedger's issue 4 and figure 8 of the Raft paper: records of an old term reach a majority, and a newer leader lacks them."""
    group = Group(seed, voters=5, is_sync_flush=True)
    chance = group.world.chance
    for _ in range(6):
        first = _next_leader(group)
        group.run(chance.uniform(300, 900))
        second = group.follower
        group.divide({first.own, second.own})
        for number in range(chance.choice([1, 8])):  # Eight are more than a window.
            first.write(-number, 600)
        group.run(chance.uniform(20, 60))  # They are flushed, and only the second has them.
        first.kill()
        group.cut_off(second.own)
        newer = _next_leader(group)
        group.cut_off(newer.own)
        group.run(chance.uniform(5, 20))  # A record of a newer term, which nobody else has.
        newer.kill()
        group.rejoin()
        group.cut_off(newer.own)
        newer.start()  # When nobody hears the next leader any more, it has been waiting for longest.
        first.start()
        third = _next_leader(group)
        group.run(
            chance.uniform(2, 12)
        )  # It sends what the second has; nobody gets the record of its own term,
        group.cut_off(third.own, inwards=False)
        group.run(chance.uniform(5, 20))  # and it hears that a majority has the others.
        third.cut_power()  # Nobody notices.
        group.rejoin()
        _next_leader(group)
        group.run(500)
        for host in group.hosts.values():
            host.start()
        group.write(3)
    group.heal()
    return group


def _next_leader(group: Group) -> Host:
    """Let time pass until somebody leads."""
    for _ in range(20_000):
        if group.leader is not None:
            return group.leader
        group.run(1.0)
    raise AssertionError("nobody leads for 20 s")


def dledger_61_data_loss(seed: int) -> Group:
    """DLedger's issue 61: a follower comes back with an empty directory and gets the whole log again."""
    group = _led(seed)
    follower = group.follower
    follower.kill()
    follower.lose_files()
    group.write_at_random()
    group.run(3_000)
    follower.start()
    group.heal()
    return group


def dledger_85_flapping_successor(seed: int) -> Group:
    """DLedger's issue 85: an operator, or a setting, always wants the same leader, which is hard to reach."""
    group = _led(seed)
    group.write_at_random()
    for _ in range(10):
        group.hand_over("n0")
        group.run(700)
        group.cut_off("n0")
        group.run(group.world.chance.uniform(100, 2_500))
        group.rejoin()
        group.run(900)
    group.heal()
    return group


def dledger_287_failing_disk(seed: int) -> Group:
    """DLedger's issue 287: a member whose disk fails is started again and again, and never keeps the others from working."""
    group = _led(seed)
    group.write_at_random()
    sick = group.leader or group.follower
    sick.disk.is_failing = True
    group.run(5_000)
    before = group.checks.acknowledged_count
    for _ in range(20):
        sick.start()
        group.run(500)
    assert group.checks.acknowledged_count > before + 50, "a failing disk stops the group"
    group.heal()
    return group


def dledger_316_committed_beyond_the_end(seed: int) -> Group:
    """DLedger's issue 316: a leader comes back with records that nobody has, and dies while it is cut."""
    group = _led(seed)
    for _ in range(8):
        old = group.leader
        if old is None:
            group.run(3_000)
            continue
        group.cut_off(old.own)
        for _ in range(5):
            old.write(-1, 100)
        group.run(4_000)
        group.write(5)
        group.rejoin()
        group.run(group.world.chance.uniform(0, 220))
        old.cut_power()
        group.run(group.world.chance.uniform(0, 500))
        old.start()
        group.run(2_500)
    group.heal()
    return group


def dledger_325_higher_term(seed: int) -> Group:
    """DLedger's issue 325: a member with a higher term and a shorter log comes back into the group."""
    group = _led(seed)
    follower = group.follower
    follower.kill()
    follower.disk.files.hard = follower.disk.files.hard._replace(
        term=50, voted_for=follower.own
    )
    follower.disk.flush_hard()
    group.write(20)
    group.run(500)
    follower.start()
    group.heal()
    return group


def dledger_331_repeated_parts(seed: int) -> Group:
    """DLedger's issue 331: parts arrive twice, late and out of order, while members come and go."""
    group = _led(seed)
    group.write_at_random(20.0)
    group.world.faults = NetworkFaults(loss=0.05, repeat=0.5, slow=0.3, slow_ms=400)
    for _ in range(10):
        group.run(2_000)
        _kill(group, group.follower)
    group.heal()
    return group


def one_way(seed: int) -> Group:
    """DLedger's pull request 25: a leader that is heard but hears nobody, or the other way round, gives way."""
    group = _led(seed)
    group.write_at_random()
    for number in range(6):
        old = group.leader
        assert old is not None
        group.cut_off(old.own, inwards=number % 2 == 0, outwards=number % 2 == 1)
        group.run(8_000)
        assert group.leader not in (old, None), "the leader that is half cut off leads on"
        group.rejoin()
        group.run(3_000)
    group.heal()
    return group


def change_while_divided(seed: int) -> Group:
    """A leader that is cut off with new members tries to make the group of them, in one step or in several."""
    group = Group(seed, spare=2)
    chance = group.world.chance
    group.run(6_000)
    group.write_at_random()
    for _ in range(6):
        leader = group.leader
        if leader is not None and leader.member is not None:
            voters = leader.member.log.membership.voters
            spare = tuple(name for name in group.hosts if name not in voters)
            side = {leader.own, *spare}
            for name in spare:
                group.hosts[name].start()
            if chance.random() < 0.5:
                group.change(Membership(voters, spare))
                group.run(1_000)
            group.divide(side)
            group.change(Membership(tuple(sorted(side))))
            for number in range(len(spare)):
                group.change(Membership(tuple(sorted({*voters, *spare[: number + 1]}))))
                group.run(chance.uniform(0, 50))
            group.run(4_000)
        group.rejoin()
        group.run(3_000)
    group.heal()
    return group


def replaced_members(seed: int) -> Group:
    """Members die for ever and are replaced by new machines, as operators and brokers do it, while others die for a while."""
    group = Group(seed, spare=2)
    chance = group.world.chance
    places = tuple(
        MemberPlace(name, number, f"{name}:1") for number, name in enumerate(group.hosts, 1)
    )
    group.run(6_000)
    group.write_at_random()
    for _ in range(5):
        members = _members(_next_leader(group))
        new = chance.choice([name for name in group.hosts if name not in members.everyone])
        lost = group.hosts[chance.choice(members.voters)]
        lost.kill()
        group.hosts[new].start()
        group.run(chance.choice([0.0, 100.0, 4_000.0]))
        for _ in range(100):
            _replace(group, lost.own, new, places)
            group.run(chance.uniform(1, 300))
            if chance.random() < 0.05:
                _kill(
                    group,
                    chance.choice([each for each in group.hosts.values() if each is not lost]),
                )
            if group.leader is not None and _is_replaced(group.leader, lost.own, new):
                break
        else:
            break  # With one member less, another loss would be one too many.
        lost.kill()  # It may have been started again after an earlier death.
        lost.lose_files()
        lost.start()
        group.run(chance.choice([0.0, 3_000.0]))
    group.heal()
    return group


def _replace(group: Group, lost: str, new: str, places: tuple[MemberPlace, ...]) -> None:
    """Request the next of the changes by which one member replaces another, in one of two orders."""
    adds_first = places[0].member != lost

    def change(old: Membership, member: RaftMember) -> Membership:
        here = with_places(old, [each for each in places if each.member in old.everyone])
        now = group.hosts[member.own].now()
        answering = {each for each in here.voters if member.hears(each, now)} | {member.own}
        if here.learners and member.hears(new, now) and member.is_sure_of(new):
            return with_vote(here, here.learners[0])
        if new not in here.everyone and (adds_first or lost not in here.everyone):
            return with_learner(here, new, f"{new}:1")
        return without(here, lost, answering)

    group.amend(change)


def _members(host: Host) -> Membership:
    assert host.member is not None
    return host.member.log.membership


def _is_replaced(host: Host, lost: str, new: str) -> bool:
    """Return whether a leader knows that one member has replaced another for good."""
    member, members = host.member, _members(host)
    assert member is not None
    is_done = lost not in members.everyone and new in members.voters
    return is_done and member.has_begun and member.is_settled


def _led(seed: int) -> Group:
    """Return a group of three that has a leader and some records."""
    group = Group(seed)
    group.run(6_000)
    assert group.leader is not None
    group.write(10)
    group.run(500)
    return group


SCENES: dict[str, Callable[[int], Group]] = {
    scene.__name__: scene
    for scene in (
        storm, dledger_4_old_term, dledger_61_data_loss, dledger_85_flapping_successor,
        dledger_287_failing_disk, dledger_316_committed_beyond_the_end, dledger_325_higher_term,
        dledger_331_repeated_parts, one_way, change_while_divided, replaced_members,
    )
}  # fmt: skip
