"""The sources of metrics of a broker's state: store, disks, replication, groups, and the values that features provide.

A slave that is connected to its master does not show metrics of the messages of their group (members, dead letters, lag):
the master shows them, and a sum over both would count them twice. Each broker shows metrics of its process, its disk and
its replication.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from cometmq.broker.counters.counters import REFUSALS
from cometmq.broker.parts import Parts
from cometmq.broker.tables.replication_state import (
    CopyState,
    MasterState,
    ReplicationState,
)
from cometmq.codec.bodies.ha_status import HaGroup, HaGroupMember
from cometmq.codec.metrics_text import Sample, Source
from cometmq.model.names import DLQ_PREFIX, dead_letter_topic, is_system_group
from cometmq.process.vitals import vital_sources
from cometmq.store.running_flags import RunningFlag

Part = TypeVar("Part")

_FLAGS = {
    "not_writable": RunningFlag.NOT_WRITABLE,
    "queue_error": RunningFlag.QUEUE_ERROR,
    "index_error": RunningFlag.INDEX_ERROR,
    "disk_full": RunningFlag.DISK_FULL | RunningFlag.QUEUE_DISK_FULL,
    "fenced": RunningFlag.FENCED,
}
_ELECTED_ROLES = ("leader", "follower", "candidate", "stopped")
# Limits whose refusals are counted as events (Counters.refused).
_LIMITS = ("held_pops", "large_batches", "open_pops", "open_transactions")
# Provided by features and by the role, see EventCounts.gauges.
_PROVIDED = (
    "rocketmq_half_messages", "rocketmq_timer_enqueue_lag", "rocketmq_timer_dequeue_latency_milliseconds",
    "rocketmq_timing_messages", "rocketmq_pop_checkpoint_buffer_size",
    "cometmq_connections", "cometmq_certificate_expiry_seconds", "cometmq_delayed_messages",
    "cometmq_oldest_half_message_seconds",
)  # fmt: skip


class StateSamples:
    """The sources of metrics of a broker's state; `look` must be called before they are read."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._provided: dict[str, list[Sample]] = {}
        self._replication = parts.replication()

    def table(self) -> Mapping[str, Source]:
        """Return the sources of the metrics that this class provides, by name of the metric."""
        room, settings = self._parts.store.room, self._parts.settings
        return {
            **vital_sources(),
            **{name: self._provided_as(name) for name in _PROVIDED},
            **self._replicas(),
            **self._elected(),
            REFUSALS: self._refusals,
            "cometmq_store_refuses_writes": self._reasons,
            "cometmq_disk_used_bytes": lambda: (
                ((path,), space.used) for path, space in room.directories.items()
            ),
            "cometmq_disk_free_bytes": lambda: (
                ((path,), space.available) for path, space in room.directories.items()
            ),
            "cometmq_disk_limit_ratio": lambda: [
                (("delete",), settings.disk_max_ratio / 100),
                (("force",), settings.disk_forced_ratio / 100),
                (("refuse",), settings.disk_warning_ratio / 100),
            ],
            "cometmq_consumer_members": self._members,
            "cometmq_dead_letters": self._dead_letters,
        }

    def look(self) -> None:
        """Read the state of replication, and the values that features and the role provide."""
        self._replication = self._parts.replication()
        provided: defaultdict[str, list[Sample]] = defaultdict(list)
        for provide in self._parts.counters.events.gauges:
            for gauge in provide():
                provided[gauge.name].append((gauge.labels, gauge.value))
        self._provided = provided

    def _provided_as(self, name: str) -> Source:
        return lambda: self._provided.get(name, ())

    # --- limits and the store

    def _refusals(self) -> Iterator[Sample]:
        parts = self._parts
        counts = dict.fromkeys(_LIMITS, 0)
        counts |= {labels[0]: n for labels, n in parts.counters.events.of(REFUSALS).items()}
        counts |= {
            "cold_reads": parts.cold.refused,
            "filters": parts.turns.refused,
            "groups": parts.groups.refused,
            "held_pulls": parts.polls.refused,
            "memberships": parts.members.refused,
            "offsets": parts.offsets.refused,
            "topics": parts.topics.refused,
        }
        yield from (((limit,), count) for limit, count in sorted(counts.items()))
        yield from self._provided.get(REFUSALS, ())

    def _reasons(self) -> Iterator[Sample]:
        store = self._parts.store
        flags = store.flags
        for reason, bits in _FLAGS.items():
            yield (reason,), int(bool(flags.bits & bits))
        yield ("loop_blocked",), int(flags.pause is not None)
        yield ("truncating",), int(flags.hold is not None)
        yield ("too_few_replicas",), int(store.positions.refusal is not None)

    # --- replication

    def _replicas(self) -> Mapping[str, Source]:
        return {
            "cometmq_replication_slaves": self._slaves,
            "cometmq_replication_in_sync": self._of_slaves(lambda each: int(each.is_in_sync)),
            "cometmq_replication_gap_bytes": self._of_slaves(lambda each: each.gap),
            "cometmq_replication_gap_seconds": self._of_slaves(
                lambda each: round(each.gap_seconds, 3)
            ),
            "cometmq_replication_connected": self._of_master(
                lambda master: int(bool(master.is_active))
            ),
            "cometmq_replication_stopped": self._of_master(
                lambda master: int(master.stopped is not None)
            ),
            "cometmq_replication_silence_seconds": self._of_master(self._silence),
        }

    def _slaves(self) -> Iterator[Sample]:
        if self._replication.is_master:
            yield (), len(_by_slave(self._replication))

    def _of_slaves(self, value: Callable[[CopyState], float]) -> Source:
        return lambda: (
            ((slave,), value(each)) for slave, each in _by_slave(self._replication).items()
        )

    def _of_master(self, value: Callable[[MasterState], float | None]) -> Source:
        return self._of_one(lambda state: state.master, value)

    def _of_one(
        self,
        part_of: Callable[[ReplicationState], Part | None],
        value: Callable[[Part], float | None],
    ) -> Source:
        """Return the source of a metric without labels: a value of a part of the state; no sample while it is None."""

        def samples() -> Iterator[Sample]:
            part = part_of(self._replication)
            number = None if part is None else value(part)
            if number is not None:
                yield (), number

        return samples

    def _silence(self, master: MasterState) -> float | None:
        silent_ms = self._parts.clock.now_ms() - master.read_ms
        return max(silent_ms, 0) / 1000 if master.read_ms else None

    # --- a group that elects its leader

    def _elected(self) -> Mapping[str, Source]:
        def of_group(value: Callable[[HaGroup], float | None]) -> Source:
            return self._of_one(lambda state: state.group, value)

        return {
            "cometmq_elected_term": of_group(lambda group: group.term),
            "cometmq_elected_role": self._roles,
            "cometmq_elected_leader_known": of_group(lambda group: int(bool(group.leader))),
            "cometmq_elected_elections_total": of_group(lambda group: group.elections),
            "cometmq_elected_lease_seconds": of_group(
                lambda group: None if group.lease_ms is None else group.lease_ms / 1000
            ),
            "cometmq_elected_member_connected": self._of_others(
                lambda member: int(member.is_connected)
            ),
            "cometmq_elected_lag_bytes": self._of_others(lambda member: member.gap),
        }

    def _roles(self) -> Iterator[Sample]:
        group = self._replication.group
        if group is not None:
            yield from (((role,), int(role == group.role)) for role in _ELECTED_ROLES)

    def _of_others(self, value: Callable[[HaGroupMember], float | None]) -> Source:
        """Return the source of a metric with a sample for each other member whose value is not None."""

        def samples() -> Iterator[Sample]:
            group = self._replication.group
            for member in () if group is None else group.members:
                number = value(member)
                if number is not None and group is not None and member.member_id != group.own:
                    yield (member.member_id,), number

        return samples

    # --- groups

    def _groups(self) -> Iterator[str]:
        """Yield the names of consumer groups, also of deleted ones with dead letters; none on a slave with a master."""
        if self._replication.has_master:
            return
        topics = self._parts.topics.table().topics
        deleted = (
            each.removeprefix(DLQ_PREFIX) for each in topics if each.startswith(DLQ_PREFIX)
        )
        for name in dict.fromkeys([*self._parts.groups.table().groups, *deleted]):
            if not is_system_group(name):
                yield name

    def _members(self) -> Iterator[Sample]:
        for name in self._groups():
            group = self._parts.members.consumer_group(name)
            yield (name,), 0 if group is None else len(group.client_ids())

    def _dead_letters(self) -> Iterator[Sample]:
        store = self._parts.store
        for name in self._groups():
            topic = dead_letter_topic(name)
            config = self._parts.topics.get(topic)
            queues = (
                store.queue(topic, number)
                for number in range(0 if config is None else config.read_queues)
            )
            yield (name,), sum(each.max_offset - each.min_offset for each in queues if each)


def _by_slave(state: ReplicationState) -> dict[str, CopyState]:
    """Return the connections of slaves by broker id, or by IP if that is unknown; of two of one slave, the later one."""
    return {
        each.address.rpartition(":")[0] if each.broker_id is None else str(each.broker_id): each
        for each in state.copies
    }
