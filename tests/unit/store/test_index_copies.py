"""The copies of slots that a checkpoint writes: what they hold, and that their memory goes back."""

from __future__ import annotations

import os
import sys
from array import array

import pytest

from cometmq.codec.index_file import INDEX_HEADER_SIZE, IndexHeader
from cometmq.kernel.keys import keys_of
from cometmq.store.index_file import PAGE_SIZE, IndexFile, IndexShape
from tests.support.fake_disk import FakeDisk
from tests.support.memory import anonymous_bytes

SLOTS_A_PAGE = PAGE_SIZE // 4
SLOTS_BEFORE = INDEX_HEADER_SIZE // 4


def growing_file(slots: int) -> IndexFile:
    """An index file without an entry."""
    shape = IndexShape(slots=slots, entries=slots)
    file = IndexFile(FakeDisk(), "/index/20260101000000000", shape, header=IndexHeader())
    file._disk.make_directory("/index")
    file.make()
    return file


def test_a_copy_has_all_slots_of_its_pages_as_the_file_has_them():
    file = growing_file(5 * SLOTS_A_PAGE)
    in_pages = [0, 2, 3, 5]
    slots = [max(page * SLOTS_A_PAGE - SLOTS_BEFORE, 0) for page in in_pages]
    file.insert(keys_of(slots, range(4), [1000] * 4))
    runs = [(position, bytes(content)) for position, content in file.changed_runs()]
    file.insert(keys_of([1], [5], [1000]))  # A copy stays as it was.
    in_file = array("i", [0] * 5 * SLOTS_A_PAGE)
    for number, slot in enumerate(slots, 1):
        in_file[slot] = number
    if sys.byteorder == "little":
        in_file.byteswap()
    content = bytes(INDEX_HEADER_SIZE) + in_file.tobytes()
    pages = [
        (INDEX_HEADER_SIZE, PAGE_SIZE),
        (2 * PAGE_SIZE, 4 * PAGE_SIZE),
        (5 * PAGE_SIZE, len(content)),
    ]
    assert runs == [(start, content[start:end]) for start, end in pages]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is held")
def test_the_memory_of_the_copies_goes_back_with_the_last_whatever_was_taken_between_them():
    pages = 4000
    file = growing_file(pages * SLOTS_A_PAGE)
    for step in (SLOTS_A_PAGE, 2 * SLOTS_A_PAGE):
        # Each page is in memory first; then every second one changes.
        list(file.changed_runs())
        slots = range(0, pages * SLOTS_A_PAGE, step)
        file.insert(keys_of(slots, range(len(slots)), [1000] * len(slots)))
    before = anonymous_bytes(os.getpid())
    runs, taken_between = [], []
    for run in file.changed_runs():
        runs.append(run)
        taken_between.append(bytes(1000))
    size = sum(len(content) for _, content in runs)
    assert size >= 8_000_000
    assert anonymous_bytes(os.getpid()) - before >= size * 3 // 4
    del run
    runs.clear()
    assert anonymous_bytes(os.getpid()) - before <= size // 4 + sum(map(len, taken_between))
