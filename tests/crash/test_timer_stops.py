"""The timer's files after a kill or a power cut at any moment: every message is in its slot; after a kill, once.

The topic that the messages come from is there in full: the broker brings the log to the device before these
files. What the check says was added is never added again; the rest is given again by the topic.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.store.timer.files import TimerFiles, TimerRequest
from tests.support.fake_disk import FakeDisk

NOW = 1_700_000_000_000
SLOTS = 5
FILE_SIZE = 52 * 8 + 16

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["write", "save", "kill", "cut", "save and cut"]), st.just(0)),
    ),
    min_size=2,
    max_size=10,
)  # fmt: skip


def open_files(disk: FakeDisk) -> TimerFiles:
    files = TimerFiles(
        disk, "/store", precision_ms=1000, roll_slots=100, log_file_size=FILE_SIZE
    )
    files.open(NOW)
    return files


@dataclass
class Run:
    """The files, and the topic in front of them."""

    chance: random.Random
    disk: FakeDisk = field(default_factory=FakeDisk)
    topic: list[TimerRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disk.make_directory("/store")
        self.disk.sync_directory("/")
        self.files = open_files(self.disk)

    def add(self, count: int) -> None:
        for _ in range(count):
            out_ms = NOW + self.chance.randrange(SLOTS) * 1000
            one = TimerRequest(len(self.topic) * 400, 400, out_ms, out_ms + 5, False, 0)
            self.topic.append(one)
            self.files.add(one, NOW)
            self.files.queue_offset = len(self.topic)

    def write(self) -> None:
        self.files.log.write()

    def save(self) -> None:
        job = self.files.save_job(NOW)
        if job is not None:
            self.files.run(job)
            self.files.saved(job)

    def save_and_cut(self) -> None:
        """The power goes somewhere within a save."""
        job = self.files.save_job(NOW)
        if job is not None:
            self.disk.fail("fdatasync", nth=self.chance.randrange(1, 4), forever=True)
            try:
                self.files.run(job)
            except OSError:
                self.files.saving_failed(job)
        self.stop(self.disk.power_cut(self.chance))

    def stop(self, disk: FakeDisk) -> None:
        """Start again on what the disk kept; the topic gives what the check does not know."""
        self.disk = disk
        self.files = open_files(disk)
        for one in self.topic[self.files.queue_offset :]:
            if one.physical_offset not in self.files.known:
                self.files.add(one, NOW)
        self.files.queue_offset = len(self.topic)
        self.files.known.clear()

    def take(self, step: str, count: int) -> None:
        if step == "add":
            self.add(count)
        elif step == "kill":
            self.stop(self.disk.kill())
        elif step == "cut":
            self.stop(self.disk.power_cut(self.chance))
        elif step == "save and cut":
            self.save_and_cut()
        else:
            {"write": self.write, "save": self.save}[step]()

    def found(self) -> Counter[tuple[int, int]]:
        """How often each message stands in each slot."""
        self.files.log.write()
        found: Counter[tuple[int, int]] = Counter()
        for slot in range(SLOTS):
            last = self.files.wheel.slot(NOW + slot * 1000).last
            for _, unit in self.files.log.back_from(last, -1):
                found[slot, unit.physical_offset] += 1
        return found


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_every_message_is_in_its_slot_after_any_stop(steps, seed):
    run = Run(random.Random(seed))
    for step, count in steps:
        run.take(step, count)
    found = run.found()
    assert set(found) == {
        ((one.out_ms - NOW) // 1000, one.physical_offset) for one in run.topic
    }
    if not any("cut" in step for step, _ in steps):
        assert set(found.values()) <= {1}
