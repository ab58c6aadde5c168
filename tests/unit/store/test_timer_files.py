"""Wheel and log: what is added is found in its slot, after any end, and never twice."""

from __future__ import annotations

import pytest

from cometmq.codec.timer_files import (
    EMPTY_SLOT,
    TIMER_CHECK_SIZE,
    UNIT_DEFAULT,
    UNIT_DELETE,
    UNIT_ROLL,
    decode_check,
)
from cometmq.store.real_disk import RealDisk
from cometmq.store.timer.files import TimerFiles, TimerRequest
from cometmq.store.timer.wheel import WHEEL_SIZE, WHEEL_SLOTS
from tests.support.offline_steps import overwrite

NOW = 1_700_000_000_000
FILE_SIZE = 52 * 10 + 16


def open_files(path, *, now_ms=NOW, roll_slots=100, is_log_cut=False) -> TimerFiles:
    files = TimerFiles(
        RealDisk(), str(path), precision_ms=1000, roll_slots=roll_slots,
        log_file_size=FILE_SIZE,
    )  # fmt: skip
    files.open(now_ms, is_log_cut=is_log_cut)
    return files


def waiting(number: int, out_ms: int = NOW + 5000, **more) -> TimerRequest:
    values = {"due_ms": out_ms + 499, "is_delete": False, "topic_hash": 7}
    return TimerRequest(number * 1000, 300, out_ms, **{**values, **more})


def filled(path, *numbers: int) -> TimerFiles:
    """Files with these messages."""
    files = open_files(path)
    for number in numbers:
        files.add(waiting(number), NOW)
    return files


def overwrite_units(path, at: int, count: int) -> None:
    """Let the log of units have zeros."""
    overwrite(path / "timerlog" / f"{0:020d}", at, bytes(count))


def save(files: TimerFiles) -> None:
    job = files.save_job(NOW)
    assert job is not None
    files.run(job)
    files.saved(job)


def offsets_in(files: TimerFiles, out_ms: int) -> list[int]:
    """Physical offsets of a slot's messages, oldest first."""
    last = files.wheel.slot(out_ms).last
    return [unit.physical_offset for _, unit in files.log.back_from(last, -1)][::-1]


def test_messages_of_a_slot_are_chained_over_files(tmp_path):
    files = open_files(tmp_path)
    for number in range(25):
        files.add(waiting(number), NOW)
        files.add(waiting(100 + number, NOW + 9000), NOW)
    files.log.write()
    assert offsets_in(files, NOW + 5000) == [number * 1000 for number in range(25)]
    assert files.wheel.slot(NOW + 5000).unit_count == 25
    assert files.wheel.slot(NOW + 6000) is EMPTY_SLOT
    names = sorted(path.name for path in (tmp_path / "timerlog").iterdir())
    assert names == [f"{start:020d}" for start in range(0, 5 * FILE_SIZE, FILE_SIZE)]


def test_a_unit_says_when_and_where(tmp_path):
    files = open_files(tmp_path)
    files.add(waiting(3, is_delete=True), NOW + 1)
    files.log.write()
    unit = files.log.read(0)
    assert unit == (52, -1, UNIT_DEFAULT | UNIT_DELETE, NOW, 5499, 3000, 300, 7, 0)


@pytest.mark.parametrize(("ahead", "rolls_to"), [(99, None), (100, 50), (132, 50), (134, 100)])
def test_what_is_too_far_ahead_rolls(tmp_path, ahead, rolls_to):
    files = open_files(tmp_path)
    out_ms = NOW + ahead * 1000
    files.add(waiting(1, out_ms), NOW)
    files.log.write()
    unit = files.log.read(0)
    assert bool(unit.magic & UNIT_ROLL) == (rolls_to is not None)
    expected = out_ms if rolls_to is None else NOW + rolls_to * 1000
    assert offsets_in(files, expected) == [1000]


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "killed"])
def test_everything_is_found_again(tmp_path, is_saved):
    files = open_files(tmp_path)
    save_at = 12
    for number in range(25):
        files.add(waiting(number), NOW)
        if number == save_at:
            files.queue_offset = number + 1
            save(files)
    files.queue_offset = 25
    files.log.write()
    if is_saved:
        save(files)
    again = open_files(tmp_path)
    assert offsets_in(again, NOW + 5000) == [number * 1000 for number in range(25)]
    assert again.queue_offset == (25 if is_saved else save_at + 1)
    missed = set() if is_saved else {number * 1000 for number in range(save_at + 1, 25)}
    assert again.known == missed
    assert again.waiting_count == 25
    again.add(waiting(25), NOW)
    again.log.write()
    assert offsets_in(again, NOW + 5000)[-1] == 25_000


def test_a_wheel_that_is_ahead_of_its_log_is_set_by_the_log(tmp_path):
    files = filled(tmp_path, *range(5))
    save(files)
    overwrite_units(tmp_path, 52 * 3, 52 * 2)
    (tmp_path / "config" / "timercheck").unlink()
    assert offsets_in(open_files(tmp_path), NOW + 5000) == [0, 1000, 2000]


def test_a_log_that_has_lost_what_was_on_the_device_is_made_again_from_the_topic(tmp_path):
    files = filled(tmp_path, *range(5))
    files.queue_offset = 5
    save(files)
    overwrite_units(tmp_path, 52 * 3, 52 * 2)
    again = open_files(tmp_path)
    assert offsets_in(again, NOW + 5000) == []
    assert (again.queue_offset, again.waiting_count, again.log.end) == (0, 0, 0)
    assert again.delivered_ms == NOW


def test_what_lay_behind_the_end_never_comes_back(tmp_path):
    files = filled(tmp_path, *range(5))
    files.log.write()
    overwrite_units(
        tmp_path, 52, 4
    )  # The second unit is broken; what follows cannot be believed.
    again = open_files(tmp_path)
    again.add(waiting(9, NOW + 7000), NOW)
    again.log.write()
    third = open_files(tmp_path)
    assert offsets_in(third, NOW + 5000) == [0]
    assert offsets_in(third, NOW + 7000) == [9000]
    assert third.log.end == 104


def test_the_files_are_javas_in_size(tmp_path):
    files = filled(tmp_path, 1)
    files.queue_offset = 1
    save(files)
    assert (tmp_path / "timerwheel").stat().st_size == WHEEL_SIZE == 38_707_200
    check = (tmp_path / "config" / "timercheck").read_bytes()
    assert len(check) == TIMER_CHECK_SIZE
    assert decode_check(check) == (NOW, 52, 1, 1, 0, NOW, 1)


def test_files_of_another_size_are_put_aside_and_made_again(tmp_path, caplog):
    files = filled(tmp_path, 1)
    files.queue_offset = 1
    save(files)
    slots = list(files.wheel.waiting(NOW))
    (tmp_path / "timerwheel").write_bytes(b"x")
    again = open_files(tmp_path)
    assert list(again.wheel.waiting(NOW)) == slots
    assert again.queue_offset == 1
    again.close()
    for name in (tmp_path / "timerlog").iterdir():
        name.write_bytes(name.read_bytes()[:26])
    again = open_files(tmp_path)
    assert (again.queue_offset, again.log.end, again.delivered_ms) == (0, 0, NOW)
    assert list(again.wheel.waiting(NOW)) == []
    assert caplog.text.count("and are rebuilt") == 2
    names = sorted(path.name for path in (tmp_path / "damaged").iterdir())
    assert names == ["timerlog_00000000000000000000", "timerwheel"]


def test_nothing_changed_is_nothing_to_save(tmp_path):
    files = filled(tmp_path, 1)
    save(files)
    assert files.save_job(NOW) is None


def test_a_save_that_failed_is_made_up_for(tmp_path):
    files = filled(tmp_path, 1)
    job = files.save_job(NOW)
    assert job is not None
    files.saving_failed(job)
    save(files)
    (tmp_path / "timerlog" / f"{0:020d}").unlink()
    assert open_files(tmp_path).wheel.slot(NOW + 5000) is EMPTY_SLOT  # Its unit is gone.


def test_a_slot_of_another_turn_of_the_wheel_is_empty(tmp_path):
    files = filled(tmp_path, 1)
    turn_ms = WHEEL_SLOTS * 1000
    assert files.wheel.slot(NOW + 5000 + turn_ms) is EMPTY_SLOT


def test_a_broker_that_was_off_for_long_begins_with_what_a_wheel_can_hold(tmp_path):
    files = filled(tmp_path, 1)
    save(files)
    later_ms = NOW + 30 * 86_400_000
    assert open_files(tmp_path, now_ms=later_ms).read_ms == later_ms - (604_800 - 60) * 1000


def drop(files: TimerFiles, physical_offset: int) -> None:
    """Delete the files that are unneeded if the commitlog begins at an offset."""
    unneeded = files.log.unneeded(physical_offset)
    files.log.drop(unneeded)
    files.log.delete(unneeded)


def test_old_files_go_when_the_messages_of_all_their_units_are_gone(tmp_path):
    files = filled(tmp_path, *range(25))
    files.log.write()
    drop(files, 9000)
    assert files.log.chain.start == 0
    drop(files, 10_000)
    assert files.log.chain.start == FILE_SIZE
    assert not (tmp_path / "timerlog" / f"{0:020d}").exists()
    drop(files, 1 << 40)
    assert files.log.chain.start == 2 * FILE_SIZE  # The last one stays.


@pytest.mark.parametrize("is_log_cut", [False, True])
def test_units_after_the_checkpoint_are_dropped_if_their_messages_may_be_cut(
    tmp_path, is_log_cut
):
    """At the offset of a message that was cut, the log may have another one of the same size, due at another time."""
    files = filled(tmp_path, 1, 2)
    save(files)
    files.add(waiting(3), NOW)
    files.add(waiting(4, NOW + 9000), NOW)
    files.log.write()
    files.close()
    again = open_files(tmp_path, is_log_cut=is_log_cut)
    assert again.known == (set() if is_log_cut else {3000, 4000})
    kept = [1000, 2000] if is_log_cut else [1000, 2000, 3000]
    assert offsets_in(again, NOW + 5000) == kept
    assert offsets_in(again, NOW + 9000) == ([] if is_log_cut else [4000])
    assert again.waiting_count == (2 if is_log_cut else 4)
