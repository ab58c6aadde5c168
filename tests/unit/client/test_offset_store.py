"""Offsets of a group: what is kept, stored, and found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.offset_store import ClusterOffsets, ConsumedProgress, LocalOffsets
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue

FIRST, SECOND = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


class Stored(ClusterOffsets):
    """An offset store that remembers what it was told."""

    def __init__(self) -> None:
        self.rounds: list[dict[MessageQueue, int]] = []
        self.error: Exception | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        return None

    async def write(self, changed: dict[MessageQueue, int], *, is_answered: bool) -> None:
        if self.error is not None:
            raise self.error
        self.rounds.append(changed)

    def lose(self, queue):
        self.lost = queue


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def progress(stored: Stored) -> ConsumedProgress:
    return ConsumedProgress(stored)


async def test_only_what_changed_is_stored(stored, progress):
    progress.place(FIRST).offset = 5
    progress.place(SECOND).offset = 7
    await progress.store()
    progress.place(FIRST).offset = 5
    await progress.store()
    progress.place(FIRST).offset = 6
    await progress.store()
    assert stored.rounds == [{FIRST: 5, SECOND: 7}, {FIRST: 6}]


async def test_what_could_not_be_stored_is_tried_again(stored, progress):
    progress.place(FIRST).offset = 5
    stored.error = OSError("disk")
    with pytest.raises(OSError, match="disk"):
        await progress.store()
    stored.error = None
    await progress.store()
    assert stored.rounds == [{FIRST: 5}]


async def test_a_queue_that_was_given_up_is_not_stored_later(stored, progress):
    progress.place(FIRST).offset = 5
    progress.place(SECOND).offset = 7
    await progress.store([FIRST])
    progress.place(FIRST).offset = 6
    progress.forget(FIRST)
    await progress.store()
    assert stored.rounds == [{FIRST: 5}, {SECOND: 7}]
    assert progress.get(FIRST) is None


async def test_local_offsets_are_found_again_in_the_form_of_java(tmp_path):
    path = tmp_path / "a" / "offsets.json"
    assert await LocalOffsets(path).read(FIRST) is None
    await LocalOffsets(path).write({FIRST: 5})
    await LocalOffsets(path).write({SECOND: 9})
    again = LocalOffsets(path)
    assert (await again.read(FIRST), await again.read(SECOND)) == (5, 9)
    text = path.read_text()
    assert '"offsetTable"' in text
    assert '"brokerName":"broker-a"' in text


async def test_a_file_of_java_is_read(tmp_path):
    path = tmp_path / "offsets.json"
    path.write_text(
        '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":1,\n\t\t\t'
        '"topic":"T"\n\t\t}:12\n\t}\n}'
    )
    assert await LocalOffsets(path).read(SECOND) == 12


async def test_a_broken_file_is_replaced_by_the_one_before(tmp_path):
    path = tmp_path / "offsets.json"
    await LocalOffsets(path).write({FIRST: 5})
    await LocalOffsets(path).write({FIRST: 6})
    path.write_text("{")
    assert await LocalOffsets(path).read(FIRST) == 5


async def test_two_broken_files_are_an_error_that_names_one(tmp_path):
    path = tmp_path / "offsets.json"
    path.write_text("[1]")
    with pytest.raises(CodecError, match=r"offsets\.json"):
        await LocalOffsets(path).read(FIRST)


@pytest.mark.parametrize("name", ["offsets.json", "."])
async def test_what_is_no_file_in_its_place_is_an_error_that_names_it(tmp_path, name):
    path = tmp_path / "offsets.json"
    if name == ".":  # Its folder is a file.
        (tmp_path / "file").touch()
        path = tmp_path / "file" / "offsets.json"
    else:
        path.mkdir()
    with pytest.raises(CodecError, match=r"offsets\.json cannot be read"):
        await LocalOffsets(path).read(FIRST)


async def test_the_offset_of_a_deleted_topic_is_not_stored_and_goes_from_the_file(tmp_path):
    path = tmp_path / "offsets.json"
    progress = ConsumedProgress(LocalOffsets(path))
    assert await progress.read(FIRST) is None
    for queue in (FIRST, SECOND):
        progress.place(queue).offset = 5
    await progress.store()
    progress.lose(FIRST)
    progress.place(SECOND).offset = 6
    await progress.store()
    assert await LocalOffsets(path).read(FIRST) is None
    assert await LocalOffsets(path).read(SECOND) == 6
    progress.place(FIRST).offset = 5  # The same number, of the new topic.
    await progress.store()
    assert await LocalOffsets(path).read(FIRST) == 5


def test_nothing_is_committed_before_anything_came():
    assert ProcessQueue().next_offset is None


def test_the_smallest_open_offset_is_committed():
    process_queue = ProcessQueue()
    process_queue.add([10, 11, 12], [1, 1, 1])
    assert process_queue.next_offset == 10
    process_queue.finish([11])
    assert process_queue.next_offset == 10
    process_queue.finish([10])
    assert process_queue.next_offset == 12
    process_queue.finish([12])
    assert process_queue.next_offset == 13
    assert (process_queue.count, process_queue.size, process_queue.span) == (0, 0, 0)


def test_what_is_not_cached_or_was_finished_is_ignored():
    process_queue = ProcessQueue()
    process_queue.add([5], [100])
    process_queue.finish([4])
    process_queue.finish([5])
    process_queue.finish([5])
    assert (process_queue.count, process_queue.next_offset) == (0, 6)


def test_a_message_that_comes_twice_counts_once():
    process_queue = ProcessQueue()
    process_queue.add([5], [100])
    process_queue.add([5, 6], [100, 1])
    assert (process_queue.count, process_queue.size) == (2, 101)


def test_a_message_that_an_answer_brings_twice_or_too_early_counts_once_in_its_place():
    process_queue = ProcessQueue()
    process_queue.add([7, 5, 7], [70, 50, 70])
    assert (process_queue.count, process_queue.size, process_queue.smallest) == (2, 120, 5)
    process_queue.finish([5])
    assert (process_queue.next_offset, process_queue.cached) == (7, (1, 70))


def test_what_is_finished_together_may_have_come_apart():
    process_queue = ProcessQueue()
    process_queue.add([1, 2], [1, 2])
    process_queue.add([4, 5], [4, 5])
    process_queue.finish([5, 3, 2])
    assert (process_queue.next_offset, process_queue.cached) == (1, (2, 5))
    process_queue.finish([1, 4, 9])
    assert (process_queue.next_offset, process_queue.cached) == (6, (0, 0))


@given(
    st.sets(st.integers(0, 200), min_size=1).map(sorted),
    st.randoms(),
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_it_never_commits_past_an_open_message_and_ends_past_the_last(
    offsets, chance, pulled, given_at_once
):
    process_queue = ProcessQueue()
    waiting = list(offsets)
    jobs: list[list[int]] = []
    came = -1
    while waiting or jobs:
        if waiting and (not jobs or chance.random() < 0.5):
            come, waiting = waiting[:pulled], waiting[pulled:]
            came = come[-1]
            process_queue.add(come, list(come))
            jobs += [come[at : at + given_at_once] for at in range(0, len(come), given_at_once)]
        else:
            job = jobs.pop(chance.randrange(len(jobs)))
            if len(job) > 1 and chance.random() < 0.3:
                # One of them was sent back before the rest.
                one = job.pop(chance.randrange(len(job)))
                process_queue.finish([one])
                jobs.append(job)
            else:
                process_queue.finish(job)
        still_open = [offset for job in jobs for offset in job]
        assert process_queue.cached == (len(still_open), sum(still_open))
        if still_open:
            assert process_queue.next_offset == process_queue.smallest == min(still_open)
            assert process_queue.span == came - min(still_open)
    assert process_queue.next_offset == offsets[-1] + 1
    assert (process_queue.smallest, process_queue.span) == (None, 0)
