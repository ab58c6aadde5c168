"""Ids: new ones never meet, and those of a run come again."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.message_id import UniqueIds
from cometmq.model.errors import MessageError
from cometmq.spark.sink.identity import ColumnIds, FreshIds, RunIds, SequencedIds, TaskRun
from tests.support.hand_clock import HandClock
from tests.support.unique_ids import unique_id_time

RUN = TaskRun("8f0c", 7, 3)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"body": ["x"] * count})


def fresh(clock: HandClock, ip: bytes = b"\x7f\0\0\1") -> FreshIds:
    return FreshIds(UniqueIds(ip=ip, pid=5, loader=7, clock=clock).next_id)


def test_new_ids_of_one_moment_are_all_different():
    ids = fresh(HandClock())
    found = [each for _ in range(4) for each in ids.make(30_000).to_pylist()]
    assert len(set(found)) == 120_000
    assert {len(each) for each in found} == {32}


def test_new_ids_carry_the_time_and_the_address(clock):
    first = fresh(clock).make(1)[0].as_py()
    assert first.startswith("7F000001000500000007")
    assert abs(unique_id_time(first, now_ms=clock.now_ms() + 1) - clock.now_ms()) < 1000
    assert len(fresh(clock, ip=bytes(16)).make(1)[0].as_py()) == 56


def test_a_task_that_runs_again_gives_the_same_ids_however_its_rows_are_cut():
    whole, again = RunIds(RUN), RunIds(RUN)
    ids, sequence = whole.take(rows(70_000))
    parts = [again.take(rows(count)) for count in (1, 69_998, 1)]
    assert [each for part in parts for each in part[0].to_pylist()] == ids.to_pylist()
    assert len(set(ids.to_pylist())) == 70_000
    assert sequence[69_999].as_py() == "7-3-69999"


@pytest.mark.parametrize(
    "other",
    [
        TaskRun("8f0d", 7, 3),
        TaskRun("8f0c", 8, 3),
        TaskRun("8f0c", 7, 4),
        TaskRun("8f0c\0", 7, 3),
    ],
)
def test_another_task_has_other_ids(other):
    mine, its = (RunIds(run).take(rows(100))[0].to_pylist() for run in (RUN, other))
    assert not set(mine) & set(its)


def test_an_id_that_comes_again_lies_in_the_past():
    now_ms = int(time.time() * 1000)
    for taken in (RunIds(RUN).take(rows(1)), ColumnIds(RUN, "body").take(rows(1))):
        assert unique_id_time(taken[0][0].as_py(), now_ms=now_ms) < now_ms


@given(st.lists(st.text(max_size=5), unique=True, min_size=1))
def test_ids_of_values_do_not_depend_on_task_or_order(values):
    batch = pa.record_batch({"id": values})
    back = pa.record_batch({"id": values[::-1]})
    ids = ColumnIds(RUN, "id").take(batch)[0].to_pylist()
    assert ids[::-1] == ColumnIds(TaskRun("other", 0, 0), "id").take(back)[0].to_pylist()
    assert len(set(ids)) == len(values)


def test_a_number_is_an_id_and_null_is_none():
    numbers, texts = pa.record_batch({"id": [17]}), pa.record_batch({"id": ["17"]})
    assert ColumnIds(RUN, "id").take(numbers) == ColumnIds(RUN, "id").take(texts)
    nothing = pa.record_batch({"id": pa.array([None], pa.int32())})
    with pytest.raises(MessageError, match="has no id"):
        ColumnIds(RUN, "id").take(nothing)


def test_new_ids_may_have_row_numbers_beside_them():
    ids = SequencedIds(fresh(HandClock()).make, RUN)
    assert [ids.take(rows(2))[1].to_pylist() for _ in range(2)] == [
        ["7-3-0", "7-3-1"],
        ["7-3-2", "7-3-3"],
    ]


def test_the_page_of_the_format_shows_the_id_of_a_row():
    page = (Path(__file__).parents[3] / "docs" / "format" / "spark-ledger.md").read_text()
    lines = page.split("```hex\n")[1].split("```")[0].splitlines()
    shown = "".join(line.split()[0] for line in lines)
    ids, _ = RunIds(TaskRun("8f0c", 7, 0)).take(rows(2))
    assert ids[1].as_py() == shown.upper()
