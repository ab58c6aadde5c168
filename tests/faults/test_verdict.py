"""The judge of the faults finds what it looks for."""

import json
from collections.abc import Callable

import pytest

from tests.faults.clients import FILL, ORDERED, QUEUES, SHARED, TO_ONE_QUEUE
from tests.faults.verdict import Seen

LENGTH = 4  # Messages of a queue.
Books = tuple[list[list], list[list], list[list[tuple[int, str]]]]


def right_books() -> Books:
    """What producers and consumers note, and what is stored, if each queue has messages of the producer of its number."""
    stored = [
        [(offset, f"{queue}-{offset}-{FILL}") for offset in range(LENGTH)]
        for queue in range(QUEUES)
    ]
    sent = [[1.0, queue, n, queue, n] for queue in range(QUEUES) for n in range(LENGTH)]
    got = [
        [2.0, group, queue, offset, body]
        for group in (ORDERED, SHARED)
        for queue, found in enumerate(stored)
        for offset, body in found
    ]
    return sent, got, stored


def store_again(books: Books) -> None:
    """A send that is acknowledged once is stored twice, and delivered so."""
    _, got, stored = books
    queue, body = TO_ONE_QUEUE[0], stored[TO_ONE_QUEUE[0]][-1][1]
    stored[queue].append((LENGTH, body))
    got += [[3.0, group, queue, LENGTH, body] for group in (ORDERED, SHARED)]


def begin_later(books: Books) -> None:
    """The group in order never gets the first message of a queue, whose send had no answer."""
    sent, got, _ = books
    sent.pop(0)
    got.pop(0)


def lose(books: Books) -> None:
    """A message is not where its acknowledgement says."""
    books[2][0].pop()


def skip(books: Books) -> None:
    """The group in order gets a message after the next one."""
    books[1][1][0] = 3.0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (store_again, "1 are there again"),
        (begin_later, "do not begin with the first"),
        (lose, "not at their place"),
        (skip, "out of order"),
        (None, ""),
    ],
)
def test_the_judge_refuses_each_fault_and_takes_right_books(
    tmp_path, fault: Callable[[Books], None] | None, said: str
):
    books = right_books()
    if fault is not None:
        fault(books)
    sent, got, stored = books
    for name, rows in (("produce", sent), ("consume", got)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen = Seen([tmp_path / "produce"], [tmp_path / "consume"])
    if fault is None:
        seen.judge(stored)
    else:
        with pytest.raises(AssertionError, match=said):
            seen.judge(stored)
