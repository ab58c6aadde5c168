"""The kernel imports and touches no object of store or broker; what says so finds who does."""

from pathlib import Path

import pytest

from tools import kernel_wall

ROOT = Path(__file__).resolve().parents[2]

OWN_END = (
    "cdef class QueueEnd:\n    cdef public object next_offset\n    cdef public bytearray tail\n"
)
GOOD = '''
from libc.stdint cimport int64_t
from cometmq.kernel._ends cimport QueueEnd
from cometmq.model.flags import MASK


def pack(list puts, dict seen not None, queue, int64_t position=0):
    """It says queue.topic, and does nothing about it."""
    cdef QueueEnd end
    cdef bytes topic, block = b"text.with.points"  # queue.topic
    for queue in puts:
        end = <QueueEnd?>queue
        end.next_offset = 1
        seen.setdefault(end, []).append(topic.isascii())
        end.tail.clear()
'''


def complaints(tmp_path: Path, text: str, name: str = "_packing.pyx") -> list[str]:
    kernel = tmp_path / kernel_wall.KERNEL
    kernel.mkdir(parents=True)
    (kernel / "_ends.pxd").write_text(OWN_END)
    (kernel / name).write_text(text)
    return kernel_wall.check(tmp_path)


def test_the_kernel_keeps_to_bytes_numbers_and_its_own_rows():
    assert kernel_wall.check(ROOT) == []


def test_what_is_declared_may_be_touched(tmp_path):
    assert complaints(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("was", "becomes", "what"),
    [
        ("end.next_offset = 1", "queue.next_offset = 1", "queue.next_offset: queue has no type"),
        ("end.tail.clear()", "queue.tail.clear()", "queue.tail: queue has no type"),
        ("end.tail.clear()", "end.fault", "end.fault: nothing of the kernel's has 'fault'"),
        ("end.tail.clear()", "puts[0].topic", ".topic: nothing of the kernel's has 'topic'"),
        ("cdef QueueEnd end", "cdef object end", "end.next_offset: end has no type"),
        ("cometmq.model.flags", "cometmq.store.batch", "it imports cometmq.store.batch"),
        ("cometmq.kernel._ends cimport", "cometmq.broker._lanes cimport", "it imports cometmq.broker._lanes"),
        ("from libc.stdint cimport int64_t", "cimport cometmq.net.peer", "it imports cometmq.net.peer"),
    ],
)  # fmt: skip
def test_what_is_another_object_is_found_in_compiled_code(tmp_path, was, becomes, what):
    assert was in GOOD
    found = complaints(tmp_path, GOOD.replace(was, becomes))
    assert found
    assert found[0].endswith(what)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("from cometmq.store.batch import Put", "it imports cometmq.store.batch"),
        ("import cometmq.broker.tables.lanes", "it imports cometmq.broker.tables.lanes"),
        (
            "def watch(queue):\n    return queue.deleted",
            "nothing of the kernel's has 'deleted'",
        ),
    ],
)
def test_what_is_another_object_is_found_in_the_plain_twin(tmp_path, line, what):
    text = f"import os\n\n{line}\n\n\ndef end(queue):\n    return queue.tail, os.environ\n"
    (found,) = complaints(tmp_path, text, "sends.py")
    assert found.endswith(what)
