"""The timer's machine: the wheel, the running second, restarts and lost writes, on a hand clock and a disk in memory."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.timer.delivery import LOOK_SECONDS, TimedDelivery
from cometmq.broker.timer.times import delete_key, timer_topic
from cometmq.codec.timer_files import TimerCheck, decode_check
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import KeptMachine
from cometmq.store.positions import Durability
from cometmq.store.timer.files import TimerFiles
from tests.support.hand_broker import PATH, HandBroker
from tests.support.hand_clock import HandClock
from tests.support.store_puts import HOST_V4

START = 1_700_000_000_000
TOPICS = (TopicConfig("Orders", 2, 2),)


class Timed:
    """One life of a broker with a timer; `is_running` begins its turns."""

    def __init__(self, *, is_running: bool = True, **more) -> None:
        more.setdefault("clock", HandClock(START))
        self.broker = broker = HandBroker(topics=TOPICS, **more)
        values = broker.settings
        self.waiting: Counter[str] = Counter()
        self.delivery = TimedDelivery(
            broker.parts,
            TimerFiles(
                broker.disk, PATH, precision_ms=values.timer_precision_ms,
                roll_slots=values.timer_roll_window_slots, log_file_size=5_200,
            ),
            count=self._count,
        )  # fmt: skip
        self.world = broker.world
        self.world.run(self.delivery.open())
        if is_running:
            machine = KeptMachine(
                self.world, "timer/wheel", self.delivery.turn, period_seconds=LOOK_SECONDS
            )
            machine.begin()
            broker.wake(machine, [self.delivery.queue()])
            broker.store.on_truncated += [self.delivery.truncated, lambda _: machine.wake()]

    def _count(self, topics: Iterable[str], step: int) -> None:
        for topic in topics:
            self.waiting[topic] += step

    def send(
        self, body: bytes, due_ms: int, *, key: str = "", takes_back: str = "", **more: str
    ) -> None:
        """Store a message as the reroute of a send would."""
        precision = self.broker.settings.timer_precision_ms
        marks = {
            "REAL_TOPIC": "Orders", "REAL_QID": "1", "TIMER_DELIVER_MS": str(due_ms),
            "TIMER_OUT_MS": str((due_ms - 1) // precision * precision),
        }  # fmt: skip
        if key:
            marks["UNIQ_KEY"] = key
        if takes_back:
            marks["TIMER_DEL_UNIQKEY"] = delete_key("Orders", takes_back)
        marks |= more
        now_ms = self.broker.clock.now_ms()
        topic = timer_topic(self.broker.topics)
        self.broker.put(InnerMessage(topic, 0, body, marks, born_ms=now_ms, born_host=HOST_V4))

    def orders(self) -> list[bytes]:
        return self.broker.bodies("Orders", 1)

    def save(self) -> None:
        self.world.run(self.delivery.save())

    def killed(self, **more) -> Timed:
        chance = self.world._chance
        return Timed(**{**self.broker.killed(), "chance": chance, **more})


@pytest.fixture
def timed():
    return Timed()


def test_it_leaves_at_its_millisecond(timed):
    timed.send(b"later", START + 5_300)
    timed.world.pass_time(5.299)
    assert timed.orders() == []
    assert timed.delivery.facts()["timerCongestNum"] == "1"
    timed.world.pass_time(0.002)
    (record,) = timed.broker.records("Orders", 1)
    dequeued = int(record.properties()["TIMER_DEQUEUE_MS"])
    assert (record.body, START + 5_300 <= dequeued <= START + 5_301) == (b"later", True)
    assert timed.waiting["Orders"] == 0


def test_a_record_of_another_topic_is_no_reason_to_drop_a_message(timed):
    """A store may hold what clients wrote before such sends were refused."""
    timed.send(b"victim", START + 5_300, key="k")
    timed.send(b"forged", START + 5_300, takes_back="k", REAL_TOPIC="Mine")
    timed.world.pass_time(6)
    assert timed.orders() == [b"victim"]


def test_a_count_of_rolls_that_is_no_number_stops_no_timer(timed):
    far = START + 1_000 * (timed.broker.settings.timer_roll_window_slots + 10)
    timed.send(b"far", far, TIMER_ROLL_TIMES="9" * 5_000)
    timed.send(b"victim", START + 5_300)
    timed.world.pass_time(far / 1000 - START / 1000 + 2)
    assert timed.orders() == [b"victim", b"far"]


def test_three_days_are_a_few_looks_where_nobody_sets_the_clock():
    timed = Timed(clock=HandClock(START, is_steady=True))
    day_ms = 86_400_000
    timed.world.pass_time(1_000)
    timed.send(b"later", START + 3 * day_ms)
    timed.world.pass_time(2 * 86_400)
    timed.send(b"sooner", START + 3 * day_ms - 700)
    timed.world.pass_time(86_400 - 1_000 - 0.701)
    assert timed.orders() == []
    timed.world.pass_time(0.002)
    assert timed.orders() == [b"sooner"]
    assert timed.delivery.facts()["timerReadBehind"] == "0"
    timed.world.pass_time(0.7)
    assert timed.orders() == [b"sooner", b"later"]
    assert len(timed.world.sleeps) < 10_000  # There were 5 million.


@pytest.mark.parametrize("is_steady", [True, False])
def test_what_sleeps_is_not_behind(is_steady):
    timed = Timed(clock=HandClock(START, is_steady=is_steady))
    timed.world.pass_time(59.5)
    assert timed.delivery.facts()["timerReadBehind"] == "0"


def test_a_clock_that_is_set_forward_is_noticed_within_a_second(timed):
    timed.send(b"later", START + 3_600_000)
    timed.world.pass_time(100.5)
    timed.broker.clock._start_ms += 3_600_000  # The wall clock alone.
    timed.world.pass_time(1.1)
    assert timed.orders() == [b"later"]


def test_files_are_saved_a_second_after_something_changed_and_left_alone_before():
    timed = Timed(clock=HandClock(START, is_steady=True))
    keeping = KeptMachine(
        timed.world, "timer/files", timed.delivery.keep_files, period_seconds=1.0
    )
    keeping.begin(1.0)
    timed.delivery.on_change = keeping.wake
    timed.world.pass_time(45)
    saves = timed.delivery.files.check.counter
    timed.send(b"later", START + 100_000)
    timed.world.pass_time(0.5)
    assert timed.delivery.files.check.queue_offset == 1
    assert timed.delivery.files.check.counter == saves + 1
    assert timed.delivery.facts()["timerEnqueueTps"] == "1.0"
    timed.world.pass_time(1)
    assert timed.delivery.facts()["timerEnqueueTps"] == "0.0"


def test_files_that_no_message_needs_are_read_and_deleted_in_a_thread(timed, monkeypatch):
    """Each is a read of a cold page and a change of the directory, of which a loop can do none."""
    disk, world = timed.broker.disk, timed.world
    for number in range(500):
        timed.send(b"%03d" % number, START + 5_000)
    world.pass_time(10)
    timed.save()
    log = timed.delivery.files.log
    names = [file.path for file in log.chain.files]
    assert len(names) > 3
    while len(timed.broker.store._log.chain.files) > 1:  # As the cleaner does.
        timed.broker.store._log.chain.drop_first()
    on_loop: list[str] = []
    in_thread: list[str] = []
    elsewhere = world.elsewhere

    def noted(work, done):
        def watched():
            with monkeypatch.context() as within:
                within.setattr(disk, "_called", in_thread.append)
                return work()

        elsewhere(watched, done)

    monkeypatch.setattr(world, "elsewhere", noted)
    monkeypatch.setattr(disk, "_called", on_loop.append)
    keeping = KeptMachine(world, "timer/files", timed.delivery.keep_files, period_seconds=1.0)
    keeping.begin(31.0)
    world.pass_time(40)
    monkeypatch.undo()
    assert [file.path for file in log.chain.files] == names[-1:]
    assert not set(names[:-1]) & disk.names.keys()
    assert in_thread.count("unlink") == len(names) - 1
    assert not on_loop


def test_many_for_one_second_come_in_the_order_of_their_times(timed):
    for number in range(300):
        due_ms = START + 1002 + (number * 7) % 997
        timed.send(b"%d" % due_ms, due_ms)
    timed.world.pass_time(2.1)
    assert (len(timed.orders()), timed.orders()) == (300, sorted(timed.orders()))


def test_none_is_lost_where_those_that_came_first_are_due_last(timed):
    dues = range(START + 1900, START + 1100, -50)
    for due_ms in dues:
        timed.send(b"%d" % due_ms, due_ms)
    timed.world.pass_time(0.5)
    timed.broker.clock.turn(2)
    timed.world.pass_time(2)
    assert timed.orders() == [b"%d" % due_ms for due_ms in reversed(dues)]


def test_it_can_come_into_the_second_that_runs(timed):
    timed.send(b"second", START + 900)
    timed.world.pass_time(0.2)
    timed.send(b"first", START + 500)
    timed.world.pass_time(0.31)
    assert timed.orders() == [b"first"]
    timed.world.pass_time(0.4)
    assert timed.orders() == [b"first", b"second"]


def test_what_is_taken_back_never_comes(timed):
    for key in ("kept", "lost"):
        timed.send(key.encode(), START + 5_000, key=key)
    timed.send(b"0", START + 5_000, key="lost", takes_back="lost")
    timed.world.pass_time(12)
    assert timed.orders() == [b"kept"]
    assert timed.delivery.is_empty


@pytest.mark.parametrize("is_steady", [True, False])
def test_a_recall_of_what_is_gone_makes_the_timer_forget_no_other(is_steady):
    """A recall counts as one message less, so the sum says that the wheel is empty."""
    timed = Timed(clock=HandClock(START, is_steady=is_steady))
    timed.send(b"later", START + 60_000)
    timed.send(b"", START + 90_000, takes_back="gone")
    timed.world.pass_time(1)
    assert (timed.delivery.files.waiting_count, timed.delivery.is_empty) == (0, False)
    timed.world.pass_time(60)
    assert timed.orders() == [b"later"]
    timed.world.pass_time(90_000 if is_steady else 40)  # Such a timer sleeps for a day.
    assert (timed.delivery.files.waiting_count, timed.delivery.is_empty) == (0, True)


def test_beyond_the_window_it_goes_through_the_topic_again():
    timed = Timed(timer_roll_window_slots=10)
    timed.send(b"far", START + 25_000)
    timed.world.pass_time(24.9)
    assert timed.orders() == []
    timed.world.pass_time(0.2)
    (record,) = timed.broker.records("Orders", 1)
    assert record.properties()["TIMER_ROLL_TIMES"] == "2"


def test_a_clock_that_was_set_back_loses_nothing(timed):
    timed.send(b"before", START + 100_000)
    timed.world.pass_time(60)
    timed.broker.clock._start_ms -= 30_000  # The wall clock alone.
    timed.send(b"after", START + 35_000)
    timed.world.pass_time(75)
    assert set(timed.orders()) == {b"before", b"after"}


def test_what_is_saved_says_how_far_it_is(timed):
    timed.send(b"later", START + 60_000)
    timed.world.pass_time(1.01)
    timed.save()
    check = decode_check(timed.broker.disk.content(f"{PATH}/config/timercheck"))
    assert (check.queue_offset, check.log_flushed) == (1, 52)


@pytest.mark.parametrize("what", ["no flush", "the disk"])
def test_what_could_not_be_saved_is_saved_the_next_time(timed, what):
    timed.send(b"later", START + 60_000)
    timed.world.pass_time(1)
    if what == "no flush":
        timed.world.is_flushed = False
        timed.save()
        timed.world.is_flushed = True
    else:
        timed.broker.disk.fail("fdatasync", code=errno.EIO)
        with pytest.raises(OSError, match="EIO"):
            timed.save()
    assert timed.delivery.files.check.queue_offset == 0
    timed.save()
    assert timed.delivery.files.check.queue_offset == 1
    timed = timed.killed()
    timed.world.pass_time(60)
    assert timed.orders() == [b"later"]


def test_progress_is_told_when_a_slot_is_over_and_not_when_only_time_passes():
    timed = Timed(clock=HandClock(START, is_steady=False))
    files = timed.delivery.files
    told: list[tuple[int, int]] = []
    timed.delivery.on_progress = lambda: told.append((files.read_ms, files.queue_offset))
    timed.world.pass_time(10)
    assert told == []
    timed.send(b"first", START + 15_300)
    timed.send(b"second", START + 17_300)
    timed.world.pass_time(30)
    assert timed.orders() == [b"first", b"second"]
    assert told[0][1] >= 1
    assert told[-1][0] >= START + 18_000, "no later timer delivers the second message again"
    count = len(told)
    timed.world.pass_time(60)
    assert len(told) == count


def test_a_group_with_elections_saves_what_a_majority_has(monkeypatch):
    """The files of a leader whose log was cut must not count messages as read that are others now."""
    timed = Timed(is_elected=True)
    timed.send(b"later", START + 60_000)
    timed.world.pass_time(1)
    outcome = Durability.NOT_COMMITTED
    monkeypatch.setattr(timed.world, "confirmed", lambda _end, done: done(outcome))
    timed.save()
    assert timed.delivery.files.check.queue_offset == 0
    outcome = Durability.OK
    timed.save()
    assert timed.delivery.files.check.queue_offset == 1


def test_a_stop_in_the_middle_of_a_save_leaves_all_of_it_to_be_saved(timed):
    timed.send(b"later", START + 60_000)
    timed.world.pass_time(1)
    timed.world.is_flushed = None
    stopped: list[int] = []
    keeping = KeptMachine(timed.world, "timer/files", timed.delivery.keep_files)
    keeping.begin()
    timed.world.pass_time(0.001)
    keeping.stop(lambda: stopped.append(1))
    assert stopped
    timed.world.is_flushed = True
    timed.save()
    assert timed.delivery.files.check.queue_offset == 1


def test_a_put_that_fails_is_tried_again_and_nothing_is_counted_twice(timed, caplog):
    timed.send(b"stuck", START + 1_500)
    timed.world.pass_time(1.4)
    timed.broker.disk.fail("pwrite", code=errno.ENOSPC)
    timed.world.pass_time(0.3)
    assert timed.orders() == []
    assert "next try in 1 s" in caplog.text
    timed.broker.store.tick()
    timed.world.pass_time(2)
    timed.broker.store.tick()
    timed.world.pass_time(2)
    assert (timed.orders(), timed.waiting["Orders"]) == ([b"stuck"], 0)


def test_both_ways_can_be_stopped_while_it_runs():
    timed = Timed(is_timer_dequeue_stopped=True)
    timed.send(b"kept", START + 1_500)
    timed.world.pass_time(5)
    assert (timed.orders(), timed.delivery.files.waiting_count) == ([], 1)
    timed = Timed(is_timer_enqueue_stopped=True)
    timed.send(b"kept", START + 1_500)
    timed.world.pass_time(5)
    assert timed.delivery.facts()["timerOffsetBehind"] == "1"


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_each_comes_in_its_time_across_kills_and_none_is_lost(data, seed):
    """Without a kill each once; with kills again what was not saved. Work in threads ends in any order."""
    timed = Timed(chance=Random(seed), timer_roll_window_slots=8)
    sent: dict[bytes, int] = {}
    is_killed = False
    for number in range(data.draw(st.integers(1, 8))):
        body, ahead = b"%d" % number, data.draw(st.integers(1, 6_000))
        sent[body] = timed.broker.clock.now_ms() + ahead
        timed.send(body, sent[body])
        waited = 0.0
        if data.draw(st.sampled_from(["wait", "wait", "kill"])) == "wait":
            waited = data.draw(st.floats(0, 3))
            timed.world.pass_time(waited)
        else:
            is_killed = True
            timed = timed.killed(timer_roll_window_slots=8)
        now_ms = timed.broker.clock.now_ms()
        assert {body for body, due in sent.items() if due > now_ms}.isdisjoint(timed.orders())
        if waited > 0.5 and not is_killed:
            overdue = {body for body, due in sent.items() if due < now_ms - 200}
            assert overdue <= set(timed.orders())
    timed.world.pass_time(8)
    assert set(timed.orders()) == set(sent)
    assert is_killed or len(timed.orders()) == len(sent)


def truncate(
    timed: Timed, body: bytes, topic: str = "rmq_sys_wheel_timer", queue_id: int = 0
) -> None:
    """The log is cut before a message."""
    records = timed.broker.records(topic, queue_id)
    timed.broker.store.truncate(next(r.physical_offset for r in records if r.body == body))


def test_what_waits_behind_a_new_end_of_the_log_never_comes_and_what_comes_then_does(timed):
    for number in range(200):  # Of two files of timerlog.
        timed.send(b"%d" % number, START + 20_000 + number)
    timed.world.pass_time(1)
    assert timed.delivery.facts()["timerCongestNum"] == "200"
    truncate(timed, b"50")
    timed.world.pass_time(1)
    assert timed.delivery.facts()["timerCongestNum"] == "50"
    for number in range(300, 310):
        timed.send(b"%d" % number, START + 20_000 + number)
    timed.world.pass_time(30)
    assert timed.orders() == [b"%d" % number for number in [*range(50), *range(300, 310)]]
    assert timed.delivery.facts()["timerCongestNum"] == "0"
    timed.save()
    timed = timed.killed()
    timed.world.pass_time(30)
    assert len(timed.orders()) == 60


def test_what_was_delivered_behind_a_new_end_of_the_log_is_delivered_again(timed):
    timed.send(b"first", START + 2_300)
    timed.send(b"second", START + 5_300)
    timed.send(b"third", START + 60_000)
    timed.world.pass_time(10)
    timed.send(b"at once", START)
    timed.world.pass_time(1)
    assert timed.orders() == [b"first", b"second", b"at once"]
    truncate(timed, b"second", "Orders", 1)
    assert timed.orders() == [b"first"]
    timed.world.pass_time(1)
    assert timed.orders() == [b"first", b"second"]
    timed.world.pass_time(60)
    assert timed.orders() == [b"first", b"second", b"third"]
    assert timed.delivery.is_empty


def test_what_was_due_when_it_came_and_went_behind_a_new_end_comes_again_and_nothing_twice(
    timed,
):
    for number in range(3):
        timed.send(b"%d" % number, START + 60_000)
    timed.world.pass_time(1)
    timed.send(b"at once", START)
    timed.send(b"waits", START + 60_000)
    timed.world.pass_time(1)
    assert timed.orders() == [b"at once"]
    truncate(timed, b"at once", "Orders", 1)
    timed.world.pass_time(1)
    assert timed.orders() == [b"at once"]
    timed.world.pass_time(70)
    assert sorted(timed.orders()) == [b"0", b"1", b"2", b"at once", b"waits"]


def test_files_that_cannot_follow_the_log_do_so_the_next_time(timed):
    timed.send(b"stays", START + 9_000)
    timed.send(b"goes", START + 9_000)
    timed.world.pass_time(1)
    truncate(timed, b"goes")
    timed.broker.disk.fail("clear_from", code=errno.EIO)
    timed.world.pass_time(0.5)
    assert timed.delivery._truncate_to is not None, "it failed, and is to be done again"
    timed.world.pass_time(1)
    assert timed.delivery.facts()["timerCongestNum"] == "1"
    timed.world.pass_time(9)
    assert timed.orders() == [b"stays"]


def test_nothing_is_saved_between_a_new_end_of_the_log_and_the_files_that_follow_it():
    timed = Timed(is_running=False)
    timed.send(b"stays", START + 9_000)
    timed.send(b"goes", START + 9_000)
    timed.world.run(timed.delivery.turn())
    timed.save()
    before = decode_check(timed.broker.disk.content(f"{PATH}/config/timercheck"))
    timed.broker.store.on_truncated.append(timed.delivery.truncated)
    truncate(timed, b"goes")
    assert timed.world.run(timed.delivery.save()) is False
    timed.world.run(timed.delivery.turn())
    assert timed.world.run(timed.delivery.save()) is True
    after = decode_check(timed.broker.disk.content(f"{PATH}/config/timercheck"))
    assert (before.queue_offset, after.queue_offset) == (2, 1)
    assert after.log_flushed < before.log_flushed


def test_what_was_a_slave_delivers_what_its_master_did_not():
    """Before the master's time, and in its wheel: delivered there, and a copy of it is in the log here."""
    slave = Timed(is_running=False)
    for body, seconds in ((b"delivered", 5), (b"late", 100), (b"not yet read", 6)):
        slave.send(body, START + seconds * 1_000)
    files = slave.delivery.files
    told = TimerCheck(read_ms=START + 10_000, queue_offset=2, counter=7)
    files.take_check(told)
    files.take_check(told._replace(read_ms=START + 9_000, queue_offset=1))  # Nothing goes back.
    promoted = slave.killed(clock=HandClock(START + 20_000))
    promoted.world.pass_time(1)
    assert promoted.orders() == [b"not yet read"]
    assert promoted.waiting["Orders"] == 0, (
        "what the master had read is in the counts copied from it"
    )
    promoted.world.pass_time(79.1)
    assert promoted.orders() == [b"not yet read", b"late"]


def test_progress_is_never_more_than_one_timer_delivered_while_it_reads_again():
    """A follower takes the maximum of the time and of the offset that leaders tell, so no leader tells its time too early."""
    told = TimerCheck(read_ms=START + 10_000, queue_offset=600)

    def follower() -> Timed:
        member = Timed(is_running=False)
        for number in range(600):
            member.send(b"%d" % number, START + 15_000)
        member.delivery.files.take_check(told)
        return member

    second = follower().killed(is_running=False, clock=HandClock(START + 20_000))
    files = second.delivery.files
    for _ in range(
        2
    ):  # A leader that is killed while it reads again still does so after its start.
        second.world.run(second.delivery.turn())
        assert 0 < files.queue_offset < 600
        second.save()
        assert files.check.read_ms == files.told_ms == START + 10_000
        third = follower()
        third.delivery.files.take_check(files.check)
        third = third.killed(clock=HandClock(START + 25_000))
        third.world.pass_time(1)
        assert len(third.orders()) == 600
        second = second.killed(is_running=False, clock=HandClock(START + 20_000))
        files = second.delivery.files
    while files.queue_offset < 600:
        second.world.run(second.delivery.turn())
    second.world.run(second.delivery.turn())
    assert files.told_ms == files.read_ms >= START + 19_000
    assert len(second.orders()) == 600


def test_a_master_that_was_killed_delivers_what_came_late_although_its_time_is_over(timed):
    """Its own check says that it was its own wheel: what is behind that is delivered as ever."""
    timed.world.pass_time(30)
    timed.save()
    timed.broker.clock.turn(0.5)
    timed.send(b"past", START + 5_000)
    again = timed.killed()
    again.world.pass_time(1)
    assert again.orders() == [b"past"]
