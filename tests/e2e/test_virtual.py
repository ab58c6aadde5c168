"""A whole broker and its clients under virtual time, as a user's test has them."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import cometmq
from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.client.api.broker import BrokerApi
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.codec.remoting import Command
from cometmq.connect import ClientInstance
from cometmq.embedded import virtual
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerRefused, ConnectError, SettingsError
from cometmq.net.channels import Channels
from cometmq.net.virtual_loop import START_MS, VirtualLoop

MINUTE_MS = 60_000


def reader(mq: cometmq.Virtual, listener: Any, topic: str) -> AsyncPushConsumer:
    return AsyncPushConsumer(mq.nameserver, group="g", listener=listener, subscriptions=[topic])


def test_a_message_for_later_comes_when_it_is_due():
    with cometmq.virtual() as mq:
        came = []

        def note(message):
            came.append((mq.now_ms(), message.body))

        async def story():
            async with AsyncProducer(mq.nameserver) as producer, reader(mq, note, "reminders"):
                await producer.send(Message("reminders", b"now"))
                await producer.send(
                    Message("reminders", b"later", deliver=timedelta(minutes=10))
                )
                await asyncio.sleep(900)

        mq.run(story())
        (first, now), (second, later) = came
        assert (now, later) == (b"now", b"later")
        assert first - START_MS < 40_000  # A group finds a new topic within half a minute.
        assert 0 <= second - START_MS - 10 * MINUTE_MS < 2_000
        assert mq.now_ms() - START_MS >= 15 * MINUTE_MS


def test_a_message_that_was_put_is_delivered_when_it_is_due_and_can_be_recalled():
    with cometmq.virtual(settings={"recallMessageEnable": True}) as mq:
        came = []

        def note(message):
            came.append((mq.now_ms(), message.body))

        async def story(handle):
            async with AsyncAdmin(mq.nameserver) as admin, reader(mq, note, "reminders"):
                await admin.messages.recall(handle)
                await asyncio.sleep(900)

        later = timedelta(minutes=10)
        _, recalled = mq.put(
            Message("reminders", b"tea", deliver=later),
            Message("reminders", b"no", deliver=later),
        )
        mq.run(story(recalled.recall_handle))
        ((when, body),) = came
        assert body == b"tea"
        assert 0 <= when - START_MS - 10 * MINUTE_MS < 2_000


def crowd(seed: int, folder) -> list[object]:
    """What two members of a group see of a busy minute in which every third message fails once."""
    with cometmq.virtual(folder, seed=seed) as mq:
        seen: list[object] = []

        def listener(name):
            async def listen(message):
                seen.append(
                    (name, mq.now_ms(), message.body, message.message_id, str(message.queue))
                )
                await asyncio.sleep(0.5)
                return message.reconsume_times > 0 or int(message.body) % 3 > 0

            return listen

        def member(name):
            return AsyncPushConsumer(
                mq.nameserver,
                group="g",
                listener=listener(name),
                subscriptions=["busy"],
                settings=PushConsumerSettings(concurrency=3),
            )

        async def story():
            async with AsyncProducer(mq.nameserver) as producer:
                await producer.send(Message("busy", b"1"))
                async with member("one"), member("two"):
                    for number in range(2, 60):
                        await producer.send(Message("busy", b"%d" % number))
                        await asyncio.sleep(1)
                    await asyncio.sleep(60)

        mq.run(story())
        log = b"".join(path.read_bytes() for path in sorted(folder.glob("store/commitlog/*")))
        return [*seen, hash(log)]


def test_the_same_seed_is_the_same_run_to_the_last_byte_of_the_log(tmp_path):
    first, again, other = (crowd(seed, tmp_path / f"{n}") for n, seed in enumerate((7, 7, 8)))
    assert len(first) > 70
    assert first == again
    assert first != other


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """How many callbacks loops have called, its only element."""
    run, counts = asyncio.Handle._run, [0]

    def counted(handle: asyncio.Handle) -> None:
        counts[0] += 1
        run(handle)

    monkeypatch.setattr(asyncio.Handle, "_run", counted)
    return counts


def quiet_hours(folder, hours: float) -> tuple[list[tuple[int, bytes, int]], bytes]:
    """What a consumer sees of hours in which little happens; and the log."""
    with cometmq.virtual(folder, seed=3, settings={"defaultTopicQueueNums": 1}) as mq:
        seen: list[tuple[int, bytes, int]] = []

        def listen(message):
            seen.append((mq.now_ms() - START_MS, message.body, message.reconsume_times))
            return message.body != b"fails" or message.reconsume_times > 0

        async def story() -> None:
            async with AsyncProducer(mq.nameserver) as producer, reader(mq, listen, "rare"):
                due = timedelta(hours=hours - 1)
                await producer.send(Message("rare", b"timed", deliver=due))
                await producer.send(Message("rare", b"level 18", delay_level=18))
                await producer.send(Message("rare", b"fails"))
                await asyncio.sleep(hours * 3_600)

        mq.run(story())
        path, *_ = sorted(folder.glob("store/commitlog/*"))
        with path.open("rb") as file:
            return seen, file.read(1 << 20)


def test_quiet_hours_are_leapt_over_and_what_is_due_comes_at_its_time(tmp_path, calls):
    seen, _ = quiet_hours(tmp_path, 6)
    assert [each[1:] for each in seen] == [
        (b"fails", 0), (b"fails", 1), (b"level 18", 0), (b"timed", 0),
    ]  # fmt: skip
    failed_ms, again_ms, level_ms, timed_ms = (each[0] for each in seen)
    # Level 3 is 10 s, and a group finds its retry topic in half a minute.
    assert 10_000 <= again_ms - failed_ms < 40_000
    assert 0 <= level_ms - 2 * 3_600_000 < 1_000
    assert 0 <= timed_ms - 5 * 3_600_000 < 1_000
    # A few minutes around each thing that happens; with all heartbeats and long polls it was 86,000.
    assert calls[0] < 9_000


def test_three_idle_days_are_a_few_callbacks(tmp_path, calls):
    """Those of the minutes before it is clear that nothing happens; with all registrations it was 81,000."""
    with cometmq.virtual(tmp_path) as mq:
        mq.sleep("1m")
        calls[0] = 0
        mq.sleep("3d")
        assert calls[0] < 200


def test_three_days_of_clients_that_wait_are_few_callbacks_too(tmp_path, calls):
    with cometmq.virtual(tmp_path) as mq:
        came: list[StoredMessage] = []

        async def story() -> None:
            async with AsyncProducer(mq.nameserver) as producer, reader(mq, came.append, "t"):
                await producer.send(Message("t", b"first"))
                await asyncio.sleep(3 * 86_400)
                await producer.send(Message("t", b"second"))
                await asyncio.sleep(1)

        mq.run(story())
        assert [message.body for message in came] == [b"first", b"second"]
        assert calls[0] < 5_000


Note = Callable[..., None]


def member(
    nameserver: str, name: str, note: Note, *, orderly: bool = False
) -> AsyncPushConsumer:
    """One that tells what it sees."""

    async def listen(message: StoredMessage) -> bool:
        note(name, message.body, message.reconsume_times)
        if message.body == b"slow":
            await asyncio.sleep(1_200)
        return message.body != b"fails" or message.reconsume_times > 0

    return AsyncPushConsumer(
        nameserver,
        group=name,
        listener=listen,
        subscriptions=["t", "late"],
        settings=PushConsumerSettings(orderly=orderly),
    )


def busy_days(folder, *, has_leaps: bool, monkeypatch) -> list[tuple[object, ...]]:
    """What programs see of hours with all that CometMQ does by the clock; where they were, to the second."""
    monkeypatch.setattr(virtual, "VirtualLoop", partial(VirtualLoop, has_leaps=has_leaps))
    with cometmq.virtual(folder, seed=5, settings={"defaultTopicQueueNums": 2}) as mq:
        seen: list[tuple[object, ...]] = []

        def note(who: str, body: bytes, *more: object) -> None:
            seen.append((who, body, round((mq.now_ms() - START_MS) / 1000), *more))

        async def receive() -> None:
            async with AsyncSimpleConsumer(
                mq.nameserver, group="simple", subscriptions=["t"]
            ) as consumer:
                for _ in range(3):
                    for message in await consumer.receive(wait_ms=1_500_000):
                        note("simple", message.body)

        async def story() -> None:
            async with (
                AsyncProducer(mq.nameserver) as producer,
                member(mq.nameserver, "one", note),
            ):
                await producer.send(Message("t", b"begins"))
                async with member(mq.nameserver, "ordered", note, orderly=True):
                    await asyncio.sleep(60)
                    await producer.send(Message("t", b"level 14", delay_level=14))
                    await producer.send(Message("t", b"fails"))
                    await producer.send(Message("t", b"timed", deliver=timedelta(hours=1)))
                    receiving = asyncio.create_task(receive())
                    await asyncio.sleep(1_500)
                    await producer.send(Message("late", b"new topic"))
                    await producer.send(Message("t", b"slow"))
                await asyncio.sleep(2_800)
                await producer.send(Message("t", b"ends"))
                await receiving
                await asyncio.sleep(60)

        mq.run(story())
        return sorted(seen, key=repr)


def test_a_program_sees_nothing_of_leaps(tmp_path, monkeypatch):
    with_leaps, without = (
        busy_days(tmp_path / str(has_leaps), has_leaps=has_leaps, monkeypatch=monkeypatch)
        for has_leaps in (True, False)
    )
    assert len(with_leaps) > 15
    assert [each[:2] for each in with_leaps] == [each[:2] for each in without]
    for ours, theirs in zip(with_leaps, without, strict=True):
        # Where in its period a look at routes was is not the same after a leap.
        assert ours[2] == pytest.approx(theirs[2], abs=31), (ours, theirs)


def test_quiet_hours_are_the_same_again(tmp_path):
    assert quiet_hours(tmp_path / "1", 2.5) == quiet_hours(tmp_path / "2", 2.5)


def test_its_clients_are_refused_where_nobody_listens_and_told_where_nothing_can_happen():
    with cometmq.virtual() as mq:

        async def call_nobody():
            async with AsyncProducer("127.0.0.1:1") as producer:
                await producer.send(Message("t", b""))

        with pytest.raises(ConnectError):
            mq.run(call_nobody())
        with pytest.raises(SettingsError, match="not a duration"):
            mq.sleep("3 weeks")
        before = mq.now_ms()
        mq.sleep("1m")
        mq.sleep(1.5)
        assert mq.now_ms() - before == pytest.approx(MINUTE_MS + 1500, abs=10)


def test_what_was_stored_is_there_in_the_next_run_of_the_same_folder(tmp_path):
    async def send(mq):
        async with AsyncProducer(mq.nameserver) as producer:
            return (await producer.send(Message("kept", b"x"))).queue_offset

    def once():
        with cometmq.virtual(tmp_path, settings={"defaultTopicQueueNums": 1}) as mq:
            return mq.run(send(mq))

    assert [once(), once()] == [0, 1]


async def test_virtual_time_within_a_running_loop_is_refused_in_one_line():
    import cometmq
    from cometmq.errors import SettingsError

    with (
        pytest.raises(SettingsError, match="one is already running in this thread"),
        cometmq.virtual(),
    ):
        pass


def test_a_second_start_or_close_harms_nothing():
    with cometmq.virtual() as mq:
        with pytest.raises(AssertionError, match="is running already"):
            mq.start()
        with pytest.raises(AssertionError, match="is started once"), mq:
            pass
        mq.put(Message("t", b"x"))
    mq.close()
    with pytest.raises(RuntimeError, match="closed"):
        mq.put(Message("t", b"x"))


def test_a_broker_that_is_away_for_a_minute_is_a_few_lines_and_its_return_is_one(caplog):
    with cometmq.virtual(seed=3) as mq:
        lines: list[str] = []

        async def live() -> None:
            async with AsyncAdmin(mq.nameserver) as admin:
                await admin.topics.create("orders", queues=16)
            settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST)
            consumers = [
                AsyncPushConsumer(
                    mq.nameserver, group=group, listener=lambda _message: None,
                    subscriptions=["orders"], settings=replace(settings, orderly=is_orderly),
                )
                for group, is_orderly in (("G1", False), ("G2", True))
            ]  # fmt: skip
            async with consumers[0], consumers[1]:
                await asyncio.sleep(40)
                caplog.clear()
                pair = mq._pair
                await pair._running.pop().close()
                await asyncio.sleep(60)
                await pair._start_broker()
                await asyncio.sleep(60)
                lines.extend(caplog.messages)

        mq.run(live())
    ours = [line for line in lines if "trying again" in line or "works again" in line]
    assert any(re.match("pulling from .* fails: .*; trying again", line) for line in ours), (
        lines
    )
    assert any(re.match("pulling from .* works again", line) for line in ours), lines
    assert len(lines) < 30, lines


def test_a_broker_answers_that_a_member_is_silent_before_its_client_stops_waiting():
    with cometmq.virtual() as mq:
        [sent] = mq.put(Message("tea", b"x"))

        async def story():
            api = BrokerApi(instance := ClientInstance(mq.nameserver))
            beat = encode_heartbeat(Heartbeat("me@1", (), (ConsumerPart("drinkers"),)))
            # A member that answers no request of the broker.
            member = Channels(instance.clock, on_request=lambda *_: None)
            await member.call(mq.broker, Command(RequestCode.HEART_BEAT, body=beat))
            with pytest.raises(BrokerRefused, match="me@1"):
                await api.running_state(mq.broker, "drinkers", "me@1")
            with pytest.raises(BrokerRefused, match="me@1"):
                await api.consume_directly(
                    mq.broker, "drinkers", "me@1", sent.offset_message_id
                )
            await asyncio.gather(member.close(), instance.close())

        mq.run(story())
