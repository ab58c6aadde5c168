"""The role of a running broker changes: a slave becomes the master, and the master its slave, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from cometmq import Message, SendStatus
from cometmq.broker.settings.broker_settings import BrokerRole, BrokerSettings
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.replication import RoleChange
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.record import decode_records
from cometmq.embedded.pair import LocalSends
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused
from cometmq.store.conf_file import ConfFile, conf_file
from cometmq.store.positions import Durability
from cometmq.store.real_disk import RealDisk
from tests.support.request_fields import long_fields, pull_fields
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.replication.test_promotion import fill, readable
from tests.unit.broker.replication.test_slave import has_all, nameserver

CHANGE = Code.NOTIFY_BROKER_ROLE_CHANGED


@asynccontextmanager
async def member(path, name, names, *, broker_id=0, role=BrokerRole.SYNC_MASTER, **more):
    """A broker with a conf file, which keeps its role."""
    folder = path / name
    folder.mkdir(exist_ok=True)
    conf = folder / "broker.conf"
    conf.write_text(f"brokerRole={role.name}\nbrokerId={broker_id}\n")
    async with serve(
        folder / "store",
        conf=ConfFile(str(conf), RealDisk()),
        nameservers=names,
        broker_role=role,
        broker_id=broker_id,
        is_slave_read=True,
        **more,
    ) as served:
        yield served


@asynccontextmanager
async def group(path, **more):
    """A nameserver, a SYNC_MASTER, and its slave in sync, which has its tables."""
    async with (
        nameserver() as names,
        member(path, "one", names, **more) as one,
        member(path, "two", names, broker_id=1, role=BrokerRole.SLAVE, **more) as two,
    ):
        await eventually(lambda: is_ready(one, 1), seconds=60)
        yield names, one, two


def is_ready(master, number):
    """Whether a slave can be the successor."""
    with suppress(Exception):
        master.broker.role.check_successor(number)
        return True
    return False


async def change(served, **wish):
    return await served.ask(CHANGE, encode_fields(RoleChange(**wish)))


def kept(path, name):
    """The role that the next start has."""
    conf = path / name / "broker.conf"
    values = decode_java_properties(conf.read_bytes())
    overlay = conf.with_name("broker.conf.overlay")
    if overlay.exists():
        values |= decode_java_properties(overlay.read_bytes())
    return values["brokerRole"], values["brokerId"]


def now(served):
    settings = served.broker.settings
    return settings.broker_role.name, str(settings.broker_id)


async def swap(master, slave, *, number, new_id):
    """What `cometmq cluster promote` does."""
    handed = await change(master, master_broker_id=number, broker_id=new_id)
    assert handed.code == ResponseCode.SUCCESS, handed.remark
    end = int(handed.fields["logEnd"])
    made = await change(slave, broker_id=0, broker_role="SYNC_MASTER", log_end=end)
    assert made.code == ResponseCode.SUCCESS, made.remark
    await eventually(lambda: is_ready(slave, new_id), seconds=60)


async def sent(served, body, topic="Orders", **properties):
    fields = long_fields(topic, properties=properties) if properties else long_fields(topic)
    await served.done(Code.SEND_MESSAGE, fields, body)


async def bodies(served, topic="Orders"):
    answer = await served.ask(Code.PULL_MESSAGE, pull_fields(topic, 0))
    return [record.body for record in decode_records(answer.body)]


async def test_master_and_slave_change_places_again_and_again(tmp_path):
    async with group(tmp_path) as (_, one, two):
        wanted = []
        for number in range(6):
            master, slave = (one, two) if number % 2 == 0 else (two, one)
            wanted.append(b"%d" % number)
            await sent(master, wanted[-1])
            ids = (1, 2) if number % 2 == 0 else (2, 1)
            await swap(master, slave, number=ids[0], new_id=ids[1])
            assert now(slave) == ("SYNC_MASTER", "0")
            assert now(master) == ("SLAVE", str(ids[1]))
            assert await bodies(slave) == wanted
            refused = await master.ask(Code.SEND_MESSAGE, long_fields(), b"no")
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        await sent(one, b"last")
        await has_all(one, two)
        assert await bodies(two) == [*wanted, b"last"]
        assert one.broker._topics.version.state_version == 6
        assert (kept(tmp_path, "one"), kept(tmp_path, "two")) == (
            ("SYNC_MASTER", "0"),
            ("SLAVE", "1"),
        )
        marks = [tmp_path / name / "store/config/slaveMark.json" for name in ("one", "two")]
        assert [mark.exists() for mark in marks] == [False, True]


async def test_messages_of_this_process_are_put_into_the_role_in_force(tmp_path):
    async with group(tmp_path) as (_, one, two):
        here, there = LocalSends(one.broker), LocalSends(two.broker)
        await sent(one, b"1")
        (result,) = await here.put([Message("Orders", b"2")])
        assert result.status is SendStatus.OK
        await swap(one, two, number=1, new_id=2)
        with pytest.raises(BrokerRefused, match="this broker is a slave") as refused:
            await here.put([Message("New", b"no")])
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert one.broker._topics.get("New") is None
        await there.put([Message("Orders", b"3")])
        await swap(two, one, number=2, new_id=1)
        (result,) = await here.put([Message("Orders", b"4")])
        assert result.status is SendStatus.OK
        queues = [one.broker._store.queue("Orders", number) for number in range(4)]
        assert sum(queue.max_offset for queue in queues if queue is not None) == 4


@pytest.mark.parametrize("durability", Durability)
async def test_each_durability_ends_a_put_of_this_process(served, durability):
    await sent(served, b"1")
    here, message = LocalSends(served.broker), Message("Orders", b"2")
    admitted = here._admit(message, served.broker.role.sends)
    end = asyncio.get_running_loop().create_future()
    stored = [(message, admitted, end)], [(0, 0, 0)]
    here.stored(*stored, durability, has_waited=True)
    assert end.done()
    if durability is Durability.NOT_COMMITTED:
        with pytest.raises(BrokerRefused, match="a majority of the group") as refused:
            await end
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    else:
        assert (await end).status in SendStatus


async def test_a_restart_has_the_role_that_was_changed(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"1")
        await swap(one, two, number=1, new_id=2)
        await sent(two, b"2")
    async with serve(tmp_path / "two" / "store") as again:
        assert await bodies(again) == [b"1", b"2"]
        assert not again.broker._topics.is_promoted, "it was promoted before"


async def test_nobody_is_called_back_twice_after_changes(tmp_path):
    """Each role adds callbacks to tables and store; those of a role that has ended are gone."""

    def count(served):
        base = served.broker.role.ground.parts
        return [
            len(each)
            for each in (
                base.topics.on_change, base.topics.on_delete, base.groups.on_delete,
                base.store.on_truncated, base.in_force.on_change, base.counters.on_work,
                base.counters.events.gauges, base.offsets.saver.on_dirty,
                base.members.on_heartbeat, base.members.on_left,
            )
        ]  # fmt: skip

    async with group(tmp_path) as (_, one, two):
        before = count(one)
        for _ in range(2):
            await swap(one, two, number=1, new_id=2)
            await swap(two, one, number=2, new_id=1)
        assert count(one) == before


async def test_what_waits_is_delivered_once_by_the_new_master(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"first")
        for number, wait in enumerate(({"DELAY": "3"}, {"TIMER_DELAY_MS": "9000"})):
            await sent(one, b"late %d" % number, UNIQ_KEY=f"K{number}", **wait)
        await swap(one, two, number=1, new_id=2)
        await eventually(lambda: _has(two, 3), seconds=60)
        await asyncio.sleep(30)
        assert sorted(await bodies(two)) == [b"first", b"late 0", b"late 1"]


async def _has(served, count):
    return len(await bodies(served)) >= count


async def test_topics_groups_and_offsets_of_the_last_moment_are_there(tmp_path):
    """A slave copies them each 3 s; the master waits until it has done so once more."""
    async with group(tmp_path) as (_, one, two):
        await fill(one, "Old", 1)
        await eventually(lambda: two.broker._topics.get("Old") is not None)
        await one.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Old"})
        await fill(one, "New", 4)
        commit = {"consumerGroup": "G", "topic": "New", "queueId": "0", "commitOffset": "1"}
        await one.done(Code.UPDATE_CONSUMER_OFFSET, commit)
        await swap(one, two, number=1, new_id=2)
        assert await readable(two, "New") == [b"0", b"1", b"2", b"3"]
        assert await readable(two, "Old") is None
        assert two.broker._offsets.get("G", "New", 0) == 1


async def test_an_offset_that_the_old_master_is_told_later_reaches_the_new_one(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"1")
        await sent(one, b"2")
        await swap(one, two, number=1, new_id=2)
        commit = {"consumerGroup": "G", "topic": "Orders", "queueId": "0", "commitOffset": "2"}
        await one.done(Code.UPDATE_CONSUMER_OFFSET, commit)
        await eventually(lambda: two.broker._offsets.get("G", "Orders", 0) == 2, seconds=60)


async def test_a_pull_that_waits_at_the_old_master_is_answered(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"1")
        fields = pull_fields("Orders", 0, offset=1, sysFlag="6", suspendTimeoutMillis="9000")
        waiting = asyncio.ensure_future(one.ask(Code.PULL_MESSAGE, fields))
        await eventually(lambda: len(one.broker._polls))
        await swap(one, two, number=1, new_id=2)
        await sent(two, b"2")
        answer = await waiting
        assert [record.body for record in decode_records(answer.body)] in ([], [b"2"])


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"broker_id": 0}, "it is a master already"),
        ({"broker_id": 2, "master_broker_id": 7}, "brokerId=7 cannot become the master now: it is not connected"),
        ({"broker_id": -1}, "brokerId=-1"),
        ({}, "no controller"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_and_the_master_goes_on(tmp_path, wish, words):
    async with group(tmp_path) as (_, one, two):
        refused = await change(one, **wish)
        assert refused.code != ResponseCode.SUCCESS
        assert words in refused.remark
        await sent(one, b"goes on")
        await has_all(one, two)
        assert now(one) == kept(tmp_path, "one") == ("SYNC_MASTER", "0")


async def test_a_slave_is_not_made_the_master_beside_one_that_lives(tmp_path):
    async with group(tmp_path) as (_, one, two):
        refused = await change(two, broker_id=0, is_forced=True)
        assert "is alive; make that broker a slave first" in refused.remark
        await sent(one, b"goes on")
        await has_all(one, two)
        assert now(two) == kept(tmp_path, "two") == ("SLAVE", "1")


async def test_a_slave_that_lacks_the_end_of_the_log_is_not_made_the_master(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"1")
        assert (await change(one, master_broker_id=1, broker_id=2)).code == 0
        end = two.broker._store.max_offset
        refused = await change(two, broker_id=0, log_end=end + 1)
        assert (
            f"its log ends at offset {end}, but the master's log at {end + 1}" in refused.remark
        )
        # The old one is taken back, as the command does.
        assert (
            await change(one, broker_id=0, broker_role="SYNC_MASTER", log_end=end)
        ).code == 0
        await eventually(lambda: is_ready(one, 1), seconds=60)
        await sent(one, b"2")
        assert await bodies(one) == [b"1", b"2"]


async def test_a_broker_without_a_file_keeps_its_role(served):
    refused = await change(served, broker_id=1)
    assert "without a conf file" in refused.remark


async def test_a_role_that_the_file_does_not_have_is_not_changed(tmp_path):
    async with member(tmp_path, "one", "", role=BrokerRole.ASYNC_MASTER) as served:
        (tmp_path / "one" / "broker.conf").write_text("brokerRole=SLAVE\nbrokerId=1\n")
        refused = await change(served, broker_id=1)
        assert "its conf file has brokerRole=SLAVE and brokerId=1" in refused.remark
        await sent(served, b"goes on")


@pytest.mark.parametrize(
    ("environment", "flags", "named"),
    [
        ({"COMETMQ_BROKER_ROLE": "ASYNC_MASTER"}, [], "brokerRole comes from the environment"),
        ({"COMETMQ_BROKER_ID": "0"}, [], "brokerId comes from the environment"),
        ({}, ["--broker-id", "0"], "brokerId comes from the command line"),
    ],
)
async def test_a_role_that_comes_from_elsewhere_is_not_changed_even_if_the_file_has_it_too(
    tmp_path, environment, flags, named
):
    """The next start would forget the new role: a demoted master would be a second master."""
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerRole=ASYNC_MASTER\nbrokerId=0\n")
    file = conf_file(BrokerSettings, str(conf), environment, flags)
    async with serve(tmp_path / "store", conf=file) as served:
        refused = await change(served, broker_id=1)
        assert named in refused.remark
        assert not (tmp_path / "broker.conf.overlay").exists()
        await sent(served, b"goes on")


async def gone(*_):
    raise TimeoutError


async def test_a_master_whose_successor_goes_away_remains_the_master(tmp_path, monkeypatch):
    """It has refused sends and ended its features by then: all of that is taken back."""
    async with group(tmp_path) as (_, one, _two):
        await sent(one, b"1", DELAY="2", UNIQ_KEY="K")
        monkeypatch.setattr(one.broker.role.parts.table_copies, "copied", gone)
        refused = await change(one, master_broker_id=1, broker_id=2)
        assert refused.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert "did not copy topics, groups and offsets in time" in refused.remark
        assert now(one) == kept(tmp_path, "one") == ("SYNC_MASTER", "0")
        await eventually(lambda: is_ready(one, 1), seconds=60)
        await sent(one, b"2")
        await eventually(lambda: _has(one, 2), seconds=60)
        assert sorted(await bodies(one)) == [b"1", b"2"]


async def test_a_file_that_cannot_be_written_leaves_the_role(tmp_path):
    async with group(tmp_path) as (_, one, _two):
        (tmp_path / "one" / "broker.conf.overlay").mkdir()
        refused = await change(one, master_broker_id=1, broker_id=2)
        assert refused.code == ResponseCode.SYSTEM_ERROR, refused.remark
        assert now(one) == ("SYNC_MASTER", "0")
        await eventually(lambda: is_ready(one, 1), seconds=60)
        await sent(one, b"goes on")


async def test_a_broker_that_cannot_return_to_its_role_answers_reads_and_says_so(
    tmp_path, monkeypatch
):
    async with group(tmp_path) as (_, one, _two):
        await sent(one, b"1")
        monkeypatch.setattr(one.broker.role.parts.table_copies, "copied", gone)
        object.__setattr__(one.broker.settings, "ha_port", one.broker.port)
        refused = await change(one, master_broker_id=1, broker_id=2)
        assert "haListenPort" in refused.remark
        assert "only answers what a slave answers; restart it" in refused.remark
        refused = await one.ask(Code.SEND_MESSAGE, long_fields(), b"no")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert await bodies(one) == [b"1"]


async def test_a_promotion_that_fails_at_the_port_leaves_a_slave(tmp_path):
    async with group(tmp_path) as (_, one, two):
        await sent(one, b"1")
        handed = await change(one, master_broker_id=1, broker_id=2)
        taken = two.broker.settings
        object.__setattr__(taken, "ha_port", one.broker.port)
        refused = await change(two, broker_id=0, broker_role="SYNC_MASTER")
        assert "could not start as SYNC_MASTER" in refused.remark, handed.remark
        assert now(two) == kept(tmp_path, "two") == ("SLAVE", "1")
        object.__setattr__(taken, "ha_port", 0)
        made = await change(two, broker_id=0, broker_role="SYNC_MASTER")
        assert made.code == ResponseCode.SUCCESS, made.remark
        await eventually(lambda: is_ready(two, 2), seconds=60)
        await sent(two, b"2")
        assert await bodies(two) == [b"1", b"2"]


async def test_the_topics_of_a_slave_that_began_empty_are_whole(tmp_path):
    """What was deleted before it came stays deleted, though its log has the messages."""
    async with (
        nameserver() as names,
        member(tmp_path, "one", names, role=BrokerRole.ASYNC_MASTER) as one,
    ):
        await fill(one, "Dead", 1)
        await one.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Dead"})
        await fill(one, "Kept", 1)
        async with member(tmp_path, "two", names, broker_id=1, role=BrokerRole.SLAVE) as two:
            await eventually(lambda: is_ready(one, 1), seconds=60)
            await swap(one, two, number=1, new_id=2)
            assert await readable(two, "Dead") is None
            assert await readable(two, "Kept") == [b"0"]
            table = json.loads((await two.ask(Code.GET_ALL_TOPIC_CONFIG)).body)
            assert "Dead" not in table["topicConfigTable"]
