"""What a slave has of its master: tables by values, on a hand clock; the master is a table of answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from cometmq.broker.delay.delivered_offsets import DeliveredOffsets
from cometmq.broker.replication.master_tables import OwnTables
from cometmq.broker.replication.metadata import (
    PERIOD_SECONDS,
    UNNAMED_SECONDS,
    KnownLog,
    MasterMetadata,
)
from cometmq.broker.tables.master_table import MasterTable
from cometmq.codec.bodies.consumer_offset import OffsetTable, encode_offset_table
from cometmq.codec.bodies.delay_offset import (
    DelayOffsets,
    decode_delay_offsets,
    encode_delay_offsets,
)
from cometmq.codec.bodies.group_config import GroupTable, encode_group_table
from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.bodies.topic_config import TopicTable, encode_topic_table
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import ConnectError
from cometmq.model.group import GroupConfig
from cometmq.model.names import HALF_TOPIC, TRANSACTION_GROUP
from cometmq.model.topic import TopicConfig
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings
from tests.support.replica import log_of
from tests.support.store_puts import open_store, put
from tests.unit.broker.parts_by_hand import load_tables, make_parts, tables_by_hand

MASTER = "10.0.0.1:10911"
SIZE = 1 << 20
OTHER_VERSION = DataVersion(5, 5)


@dataclass
class Told:
    """An answer."""

    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: dict[str, str] = field(default_factory=dict)


class Master:
    """A master as its slave sees it: an answer for each code; a code without one is not supported."""

    def __init__(self, world) -> None:
        self.world = world
        self.answers: dict[int, Told | Exception] = {}
        self.asked: list[tuple[int, dict[str, str]]] = []
        self.on_answer: Callable[[], None] = lambda: None
        self.version = 1
        self.log_ends_at("0")
        self.give(offsets={}, topics=[], groups=[])

    def log_ends_at(self, end: str) -> None:
        table = encode_kv_table({"commitLogMaxOffset": end})
        self.answers[Code.GET_BROKER_RUNTIME_INFO] = Told(table)

    def give(self, *, topics=None, groups=None, offsets=None) -> None:
        """Change some of its tables."""
        self.version += 1
        version = DataVersion(1_000, self.version)
        if topics is not None:
            table = TopicTable(version, {name: TopicConfig(name) for name in topics})
            self.answers[Code.GET_ALL_TOPIC_CONFIG] = Told(encode_topic_table(table))
        if groups is not None:
            configs = GroupTable(version, {name: GroupConfig(name) for name in groups})
            code = Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            self.answers[code] = Told(encode_group_table(configs))
        if offsets is not None:
            body = encode_offset_table(OffsetTable(version, offsets))
            self.answers[Code.GET_ALL_CONSUMER_OFFSET] = Told(body)

    def __call__(self, address, code, fields, done) -> None:
        assert address == MASTER
        self.asked.append((code, dict(fields)))
        answer = self.answers.get(
            code, Told(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="no such request")
        )

        def later() -> None:
            if isinstance(answer, Exception):
                done(None, answer)
            else:
                self.on_answer()
                done(answer, None)

        self.world.call_soon(later)


class Slave:
    """A slave's tables and the machine that keeps them."""

    def __init__(self, parts, more: tuple[MasterTable, ...] = ()) -> None:
        self.parts = parts
        self.master = Master(parts.world)
        self.address: str | None = MASTER
        self.is_joined = True
        self.log_end = 0
        parts.offsets.follow()
        tables = OwnTables(
            topics=parts.topics, groups=parts.groups, offsets=parts.offsets, store=parts.store
        ).all()
        self.metadata = MasterMetadata(
            (*tables, *more),
            master=lambda: self.address,
            ask=self.master,
            offsets=parts.offsets,
            log=KnownLog(end=lambda: self.log_end, is_joined=lambda: self.is_joined),
            clock=parts.clock,
        )

    def round(self) -> str | None:
        """Copy all tables once; what was wrong with the last of them that could not be copied."""
        pause = self.parts.world.run(self.metadata.step())
        assert pause == PERIOD_SECONDS
        return self.metadata.error

    def topics(self) -> set[str]:
        topics = self.parts.topics
        return {name for name in topics.table().topics if not topics.is_system(name)}

    def told(self) -> list[dict[str, str]]:
        return [
            fields for code, fields in self.master.asked if code == Code.UPDATE_CONSUMER_OFFSET
        ]


@pytest.fixture
async def slave(tmp_path):
    async with tables_by_hand(tmp_path) as parts:
        yield Slave(parts)


async def test_topics_groups_and_offsets_are_the_masters_and_on_disk(slave, tmp_path):
    slave.master.give(
        topics=["Orders", "%RETRY%G"], groups=["G"], offsets={"Orders@G": {0: 7, 1: 9}}
    )
    assert slave.round() is None
    assert slave.metadata.copied_ms == slave.parts.clock.now_ms()
    assert slave.topics() == {"Orders", "%RETRY%G"}
    assert slave.parts.groups.peek("G") is not None
    assert slave.parts.offsets.of("G", "Orders") == {0: 7, 1: 9}
    # The version is the master's, by which nameservers and Java brokers compare tables.
    assert slave.parts.topics.version == DataVersion(1_000, slave.master.version)
    slave.parts.offsets.saver.save_if_dirty()
    for table in (slave.parts.topics, slave.parts.groups, slave.parts.offsets):
        await table.saver.close()
    with ThreadPoolExecutor(1) as pool:
        again = make_parts(slave.parts.store, slave.parts.settings, slave.parts.clock, pool)
        load_tables(again)
        assert again.topics.get("Orders") is not None
        assert again.groups.peek("G") is not None
        assert again.offsets.of("G", "Orders") == {0: 7, 1: 9}
        for each in (again.topics, again.groups, again.offsets, again.locks):
            await each.saver.close()


async def test_what_was_deleted_at_the_master_goes_with_its_offsets_and_queues(slave):
    slave.master.give(topics=["Gone", "Kept"], groups=["Old", "G"])
    slave.master.give(offsets={"Gone@G": {0: 1}, "Kept@Old": {0: 2}, "Kept@G": {0: 3}})
    slave.round()
    slave.parts.store.queue_to_watch("Gone", 0)
    slave.master.give(topics=["Kept"], groups=["G"], offsets={"Kept@G": {0: 4}})
    slave.round()
    assert slave.topics() == {"Kept"}
    assert slave.parts.groups.peek("Old") is None
    assert slave.parts.offsets.table().offsets == {"Kept@G": {0: 4}}
    assert slave.parts.store.queue("Gone", 0) is None
    # The system's own stay, whatever a master lists.
    assert slave.parts.topics.get("TBW102") is not None
    assert slave.parts.groups.peek("TOOLS_CONSUMER") is not None


async def test_what_goes_while_the_log_is_truncated_goes_with_the_next_round(slave):
    """The store is at work on its files then, and refuses; the topics were gone from the table for good."""
    slave.master.give(topics=["One", "Two"], offsets={"One@G": {0: 1}, "Two@G": {0: 2}})
    slave.round()
    for name in ("One", "Two"):
        slave.parts.store.queue_to_watch(name, 0)
    slave.parts.store._acceptance.hold("the log is being truncated to 0")
    slave.master.give(topics=[], offsets={})
    assert "is being truncated" in (slave.round() or "")
    slave.parts.store._acceptance.release()
    assert slave.round() is None
    for name in ("One", "Two"):
        assert slave.parts.store.queue(name, 0) is None
    assert slave.parts.offsets.table().offsets == {}


def log_of_a_topic_made_again(path) -> tuple[bytes, int]:
    """A log with two messages of a topic, and three of the one that was made again behind it; where these begin."""
    settings = StoreSettings(commitlog_file_size=SIZE)
    with closing(open_store(path, settings)) as store:
        middle = put(store, b"0", b"1", topic="Orders")
        store.delete_topic("Orders")
        put(store, b"2", b"3", b"4", topic="Orders")
        return log_of(store), middle


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_was_sent_since_a_topic_was_made_again_stays_when_its_deletion_is_heard_of(
    slave, tmp_path, is_late
):
    """The log is faster than the tables: the new queue was deleted as the old one, and began again in its middle."""
    log, middle = log_of_a_topic_made_again(tmp_path / "master")
    store = slave.parts.store

    def copy(end: int) -> None:
        store.append_raw(store.max_offset, log[store.max_offset : end])
        store.dispatch_pending()
        slave.log_end = store.max_offset

    copy(middle)
    slave.master.give(topics=["Orders"], offsets={"Orders@G": {0: 2}})
    slave.round()
    assert store.queue("Orders", 0).max_offset == 2
    # The master answers between the two, and by the time its answer is here more of the log has come.
    slave.master.give(topics=[], offsets={})
    slave.master.on_answer = lambda: copy(len(log))
    if is_late:
        # And the deletion has to wait for the next round.
        store._acceptance.hold("the log is being truncated to 0")
        slave.master.on_answer = lambda: None
        slave.round()
        store._acceptance.release()
        copy(len(log))
    else:
        slave.round()
        slave.master.on_answer = lambda: None
    slave.master.give(topics=["Orders"], offsets={"Orders@G": {0: 1}})
    assert slave.round() is None
    queue = store.queue("Orders", 0)
    assert (queue.min_offset, queue.max_offset) == (0, 3)
    found = decode_records(b"".join(store.get("Orders", 0, 0, max_count=9).records))
    assert [record.body for record in found] == [b"2", b"3", b"4"]
    assert slave.parts.offsets.of("G", "Orders") == {0: 1}


async def test_offsets_that_the_master_lost_with_a_topic_go_though_the_topic_is_there_again(
    slave,
):
    """Deleted and made again between two looks: who took the old offsets over would pass over new messages."""
    slave.master.give(topics=["Orders"], groups=["G", "H"])
    slave.master.give(offsets={"Orders@G": {0: 5, 1: 7}, "Orders@H": {0: 5}})
    slave.round()
    slave.parts.offsets.commit("H", "Orders", 1, offset=3)
    slave.is_joined = False
    slave.master.give(offsets={"Orders@G": {1: 1}})
    slave.round()
    assert slave.parts.offsets.of("G", "Orders") == {0: 5, 1: 1}, "nothing goes yet"
    slave.is_joined = True
    slave.round()
    assert slave.parts.offsets.of("G", "Orders") == {1: 1}
    assert slave.parts.offsets.of("H", "Orders") == {1: 3}, "it was committed here"


async def test_nothing_goes_while_the_logs_are_not_known_to_fit(slave):
    """A master that came back with an empty directory must not empty its slave."""
    slave.master.give(topics=["Orders"], groups=["G"])
    slave.round()
    slave.is_joined = False
    slave.master.give(topics=["New"], groups=[])
    slave.round()
    assert slave.topics() == {"Orders", "New"}
    assert slave.parts.groups.peek("G") is not None
    slave.is_joined = True
    slave.round()
    assert slave.topics() == {"New"}
    assert slave.parts.groups.peek("G") is None


async def test_a_body_that_is_the_same_is_read_once_and_again_when_something_changed_here(
    slave, monkeypatch
):
    slave.master.give(topics=["Orders"])
    slave.round()
    reads = []
    monkeypatch.setattr(slave.parts.topics, "take", lambda *_, **__: reads.append("topics"))
    slave.round()
    assert reads == []
    monkeypatch.undo()
    slave.parts.topics.delete("Orders", end=0)
    slave.round()
    assert slave.topics() == {"Orders"}


async def test_a_reset_at_the_master_goes_back_here_too(slave):
    slave.master.give(offsets={"T@G": {0: 100}})
    slave.round()
    slave.master.give(offsets={"T@G": {0: 10}})
    slave.round()
    assert slave.parts.offsets.get("G", "T", 0) == 10


async def test_what_was_committed_here_is_told_to_the_master_until_it_is_as_far(slave):
    slave.master.give(offsets={"T@G": {0: 100, 1: 5}})
    slave.round()
    slave.master.answers[Code.GET_ALL_TOPIC_CONFIG] = ConnectError("gone")
    slave.parts.offsets.commit("G", "T", 0, offset=150)
    slave.parts.offsets.commit("H", "T", 3, offset=7)
    slave.round()
    assert slave.told() == []
    slave.master.give(topics=[])  # It is back, and stands where it stood.
    slave.master.answers[Code.UPDATE_CONSUMER_OFFSET] = Told()
    slave.round()
    assert slave.parts.offsets.get("G", "T", 0) == 150
    assert slave.told() == [
        {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "150"},
        {"consumerGroup": "H", "topic": "T", "queueId": "3", "commitOffset": "7"},
    ]
    # Its consumers went on there meanwhile: that counts, and nothing more is told.
    slave.master.give(offsets={"T@G": {0: 160, 1: 5}, "T@H": {3: 7}})
    slave.round()
    assert len(slave.told()) == 2
    assert slave.parts.offsets.get("G", "T", 0) == 160
    assert not slave.parts.offsets.has_grown


async def test_a_smaller_offset_that_was_committed_here_is_not_told(slave):
    slave.master.give(offsets={"T@G": {0: 100}})
    slave.round()
    slave.parts.offsets.commit("G", "T", 0, offset=50)
    slave.round()
    assert slave.told() == []


async def test_an_offset_that_the_master_refuses_stops_no_other(slave):
    slave.master.answers[Code.UPDATE_CONSUMER_OFFSET] = Told(
        code=ResponseCode.INVALID_PARAMETER, remark="no such topic"
    )
    slave.parts.offsets.commit("G", "T", 0, offset=1)
    slave.parts.offsets.commit("G", "T", 1, offset=1)
    slave.round()
    assert len(slave.told()) == 2
    assert slave.metadata.error is None


GARBAGE = {
    "no JSON": b"\xff\x00",
    "no object": b"[1]",
    "half of it": encode_topic_table(TopicTable(OTHER_VERSION, {"T": TopicConfig("T")}))[:-9],
    "a topic that is a path": encode_topic_table(
        TopicTable(OTHER_VERSION, {"../x": TopicConfig("../x")})
    ),
    "queues beyond memory": encode_topic_table(
        TopicTable(OTHER_VERSION, {"T": TopicConfig("T", 1 << 30, 1)})
    ),
    "a topic under another's name": b'{"topicConfigTable":{"A":{"topicName":"B"}}}',
    "static topics": b'{"topicConfigTable":{},"topicQueueMappingDetailMap":{"S":{}}}',
}


@pytest.mark.parametrize("case", GARBAGE)
async def test_a_table_that_means_nothing_is_refused_by_name_and_changes_nothing(
    slave, case, caplog
):
    slave.master.give(topics=["Orders"])
    slave.round()
    slave.master.answers[Code.GET_ALL_TOPIC_CONFIG] = Told(GARBAGE[case])
    slave.round()
    slave.round()
    assert slave.topics() == {"Orders"}
    assert "GET_ALL_TOPIC_CONFIG" in slave.metadata.error
    said = [each for each in caplog.records if "not copied" in each.getMessage()]
    assert len(said) == 1  # Once, not each three seconds.


async def test_no_master_and_a_master_that_is_gone_are_said_once_and_tried_again(slave, caplog):
    slave.address = None
    slave.parts.world.run(slave.metadata.step())
    slave.parts.clock.turn(UNNAMED_SECONDS)
    assert "no nameserver" in (slave.round() or "")
    slave.address = MASTER
    slave.master.answers[Code.GET_ALL_TOPIC_CONFIG] = ConnectError("cannot connect")
    assert MASTER in (slave.round() or "")
    slave.master.give(topics=["Orders"])
    assert slave.round() is None
    assert slave.topics() == {"Orders"}


async def test_a_master_that_is_named_a_moment_after_the_start_is_no_trouble(slave, caplog):
    slave.address = None
    assert slave.parts.world.run(slave.metadata.step()) < 1.0
    slave.address = MASTER
    slave.master.give(topics=["Orders"])
    slave.round()
    assert slave.topics() == {"Orders"}
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


async def test_a_master_of_before_a_request_gives_what_it_has(slave):
    """4.9 has neither 402 nor the timer's; a Java broker without delay offsets answers with code 1."""
    slave.master.answers[Code.GET_ALL_CONSUMER_OFFSET] = Told(
        code=ResponseCode.SYSTEM_ERROR, remark="No consumer offset in this broker"
    )
    slave.master.give(topics=["Orders"], groups=["G"])
    assert slave.round() is None
    assert slave.parts.groups.peek("G") is not None


class DelaySlave(Slave):
    """A slave that has its master's delay offsets, too."""

    def __init__(self, parts) -> None:
        file = parts.config_file("delayOffset.json")
        self.path = file.path
        self.delivered = DeliveredOffsets(file, clock=parts.clock)
        table = MasterTable(
            Code.GET_ALL_DELAY_OFFSET,
            decode_delay_offsets,
            lambda read, _is_whole: self.delivered.take(read),
            needs_log=True,
        )
        super().__init__(parts, (table,))

    def give(self, offset: int, *, log_end: int) -> None:
        """How far the master's level 3 is, and its log."""
        text = encode_delay_offsets(DelayOffsets(DataVersion(1, 1), {3: offset}))
        self.master.answers[Code.GET_ALL_DELAY_OFFSET] = Told(text.encode())
        self.master.log_ends_at(str(log_end))


@pytest.fixture
async def delays(tmp_path):
    async with tables_by_hand(tmp_path) as parts:
        yield DelaySlave(parts)


async def test_deliveries_are_believed_when_the_log_holds_them(delays):
    """A slave that knew of a delivery before it had its message would lose it, made the master then."""
    delays.give(5, log_end=1_000)
    delays.log_end = 999
    delays.round()
    assert delays.delivered.offsets == {}
    delays.give(6, log_end=2_000)  # It goes on and on; what waits is not asked for again.
    delays.round()
    delays.log_end = 1_000
    delays.round()
    assert delays.delivered.offsets == {3: 5}
    saved = ConfigFile(delays.path, RealDisk()).load(decode_delay_offsets)
    assert saved is not None
    assert saved.offsets == {3: 5}


async def test_deliveries_are_not_believed_of_another_log_and_never_go_back(delays):
    delays.give(6, log_end=10)
    delays.log_end = 10
    delays.is_joined = False
    delays.round()
    assert delays.delivered.offsets == {}
    delays.is_joined = True
    delays.round()
    assert delays.delivered.offsets == {3: 6}
    delays.give(4, log_end=10)
    delays.round()
    assert delays.delivered.offsets == {3: 6}


async def test_offsets_of_the_brokers_own_groups_wait_for_the_log_and_those_of_users_do_not(
    slave,
):
    """What ended a transaction may not be here yet: a half message before the offset would never be asked about."""
    half = f"{HALF_TOPIC}@{TRANSACTION_GROUP}"
    slave.master.give(offsets={half: {0: 7}, "Orders@G": {0: 7}})
    slave.master.log_ends_at("1000")
    slave.log_end = 999
    slave.round()
    assert slave.parts.offsets.table().offsets == {"Orders@G": {0: 7}}
    slave.log_end = 1_000
    slave.round()
    assert slave.parts.offsets.table().offsets == {half: {0: 7}, "Orders@G": {0: 7}}
    slave.master.give(offsets={"Orders@G": {0: 8}})
    slave.round()
    slave.round()
    assert slave.parts.offsets.table().offsets == {"Orders@G": {0: 8}}


@pytest.mark.parametrize("end", ["", "x", "-1", "9" * 5000])
async def test_a_master_that_does_not_say_how_far_its_log_goes_is_not_believed(delays, end):
    delays.give(6, log_end=0)
    delays.master.log_ends_at(end)
    assert "commitLogMaxOffset" in (delays.round() or "")
    assert delays.delivered.offsets == {}
