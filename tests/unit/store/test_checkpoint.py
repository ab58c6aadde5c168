"""The checkpoint files: what they say is on the device, and nothing more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.checkpoint import CHECKPOINT_SIZE, Checkpoint
from cometmq.store.checkpoint import (
    PROGRESS_SIZE,
    CheckpointFiles,
    CheckpointJob,
    Progress,
    decode_progress,
    encode_progress,
)
from cometmq.store.index_sync import IndexSync
from cometmq.store.queue_sync import QueueSync
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import open_store, put, run_jobs, store_with

NUMBERS = st.integers(0, (1 << 63) - 1)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_progress_reads_back(dispatched, flushed, entries):
    progress = Progress(dispatched, flushed, entries)
    content = encode_progress(progress)
    assert len(content) == PROGRESS_SIZE
    assert decode_progress(content + b"rest") == progress


@pytest.mark.parametrize("position", range(PROGRESS_SIZE))
def test_a_torn_progress_says_nothing(position):
    content = bytearray(encode_progress(Progress(1 << 40, 1 << 39, 12345)))
    assert decode_progress(bytes(content[:position])) is None
    content[position] ^= 1
    assert decode_progress(bytes(content)) is None


def loaded(disk: FakeDisk) -> CheckpointFiles:
    """The files of a store as they are on its disk."""
    files = CheckpointFiles(disk, "/store")
    files.load()
    return files


def test_both_files_are_written_and_read(disk):
    disk.make_directory("/store")
    files = loaded(disk)
    assert (files.times, files.progress) == (Checkpoint(), None)
    files.write(Checkpoint(1, 2, 3), Progress(4, 5, 6))
    assert len(disk.content("/store/checkpoint")) == CHECKPOINT_SIZE
    again = loaded(disk.power_cut())
    assert (again.times, again.progress) == (Checkpoint(1, 2, 3), Progress(4, 5, 6))


def test_a_job_syncs_queue_files_before_it_says_so(disk):
    disk.make_directory("/store/queue")
    disk.close(disk.open("/store/queue/file", create=True))
    job = CheckpointJob(
        CheckpointFiles(disk, "/store"),
        times=Checkpoint(),
        progress=Progress(1, 1, 1),
        syncs=[
            QueueSync(
                disk,
                "/store",
                {"/store/queue/file", "/store/queue/deleted since"},
                {"/store/queue", "/store/deleted since"},
            ),
            IndexSync(disk, "/store/index"),
        ],
    )
    disk.fail("fdatasync")
    job.run()
    assert job.error is not None
    assert not job.is_synced
    assert not disk.exists("/store/checkpoint.cometmq")
    synced = []
    for call in ("pwrite", "fdatasync"):
        disk.heal()
        disk.fail(call)
        job.run()
        synced.append(job.is_synced)
    assert synced == [True, False], "the syncs of an earlier run do not count"


def test_a_checkpoint_never_passes_an_entry_that_is_not_in_its_file():
    store, disk, clock = store_with(b"1")
    end, time = store.max_offset, clock.now_ms()
    clock.turn(2)
    store.tick()
    job = store.checkpoint_due()
    assert job is not None
    put(store, b"2")
    job.run()
    store.checkpointed(job)
    files = loaded(disk)
    assert files.progress == Progress(end, 0, 1)
    assert files.times.queue_timestamp == time
    assert files.times.log_timestamp == 0  # Nothing has been flushed yet.
    clock.turn(11)
    run_jobs(store)
    files.load()
    assert files.progress is not None
    assert files.progress.dispatched == store.max_offset


def test_the_index_time_is_kept_as_it_was_found(clock, disk):
    disk.make_directory("/store")
    CheckpointFiles(disk, "/store").write(Checkpoint(0, 0, 77), Progress(0, 0, 0))
    store = open_store(disk=disk, clock=clock)
    put(store, b"1")
    store.close()
    assert loaded(disk).times == Checkpoint(clock.now_ms(), clock.now_ms(), 77)
