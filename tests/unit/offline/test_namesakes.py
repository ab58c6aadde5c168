"""A topic that was deleted and created again: the tools take its last life for its messages, as a broker does."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from cometmq import offline
from cometmq.model.errors import StoreDamaged
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.repair import repair
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from tests.support import offline_steps
from tests.support.offline_steps import CLOCK, errors_of, files_below, rebuilt, verdict_of
from tests.support.store_puts import SMALL, open_store, put, read_all, run_jobs, settle, writing
from tests.unit.spark.test_store_rows import rows

Life = Mapping[int, int]
"""How many messages each queue gets."""

# What each life of the topic puts into its queues.
LIVES: dict[str, Sequence[Life]] = {
    "a shorter second life": [{0: 9}, {0: 4}],
    "a longer second life": [{0: 4}, {0: 9}],
    "a second life as long": [{0: 5}, {0: 5}],
    "one message each": [{0: 1}, {0: 1}],
    "three lives": [{0: 30}, {0: 3}, {0: 7}],
    "six lives": [{0: 3}, {0: 1}, {0: 8}, {0: 2}, {0: 2}, {0: 5}],
    "more queues": [{0: 6}, {0: 3, 1: 4, 2: 5}],
    "fewer queues": [{0: 6, 1: 7, 2: 8}, {0: 3}],
    "other queues": [{0: 6, 1: 7}, {2: 3}],
    "a life without messages": [{0: 6, 1: 7}, {}],
    "no life behind": [{0: 6}, {}, {0: 2}],
    "over several files of queue and log": [{0: 90, 1: 70}, {0: 45, 1: 100}],
    "a short one behind a long one": [{0: 130}, {0: 1}],
}


def body(life: int, queue_id: int, number: int) -> bytes:
    return b"life %d queue %d message %d " % (life, queue_id, number) + b"x" * 300


def live(store: MessageStore, lives: Sequence[Life], *, topic: str = "orders") -> None:
    """Create and delete a topic; the last life stays. Another topic's messages come between."""
    for life, queues in enumerate(lives):
        if life:
            store.delete_topic(topic)
        for number in range(max(queues.values(), default=0)):
            for queue_id, count in queues.items():
                if number < count:
                    put(store, body(life, queue_id, number), topic=topic, queue_id=queue_id)
        put(store, b"other %d" % life, topic="ships")
        run_jobs(store)


def made(root: Path, lives: Sequence[Life]) -> Path:
    store = open_store(root)
    live(store, lives)
    store.close()
    return named(root)


def named(root: Path, *topics: str) -> Path:
    (root / "config").mkdir(exist_ok=True)
    table = {topic: {"topicName": topic} for topic in topics or ("orders", "ships")}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return root


archived = partial(offline_steps.archived, splits=5000)


def restored(place: Path, to: Path) -> Path:
    back, missing = offline_steps.restored(place, to)
    assert missing == []
    return back


def queue_files(root: Path) -> dict[str, bytes]:
    """The files of queues that hold an entry."""
    files = files_below(root / "consumequeue").items()
    return {name: content for name, content in files if any(content)}


def bodies(root: Path, topic: str = "orders") -> dict[int, list[bytes]]:
    """The messages of each queue, as a broker that opens a copy of the store gives them."""
    copy = root.with_name(f"{root.name}-opened")
    shutil.copytree(root, copy)
    store = open_store(copy)
    found = {
        queue_id: [record.body for record in read_all(store, topic, queue_id)]
        for queue_id in range(4)
    }
    store.close()
    shutil.rmtree(copy)
    return {queue_id: of for queue_id, of in found.items() if of}


def of_last_life(lives: Sequence[Life]) -> dict[int, list[bytes]]:
    return {
        queue_id: [body(len(lives) - 1, queue_id, number) for number in range(count)]
        for queue_id, count in lives[-1].items()
    }


@pytest.fixture(params=LIVES, ids=[name.replace(" ", "-") for name in LIVES])
def lives(request: pytest.FixtureRequest) -> Sequence[Life]:
    return LIVES[request.param]


def test_a_store_with_a_dead_namesake_is_sound_and_its_records_are_a_note(tmp_path, lives):
    verdict = verdict_of(made(tmp_path / "store", lives))
    assert [each for each in verdict.findings if each.is_error] == []
    dead = sum(sum(life.values()) for life in lives[:-1])
    told = [re.split(" records? of a deleted topic", each.what) for each in verdict.findings]
    assert sum(int(count) for count, _ in told) == dead
    assert verdict.queue_entries == sum(lives[-1].values()) + len(lives)


def test_a_read_of_messages_has_those_of_the_last_life(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    every = sorted(
        body(life, queue_id, number)
        for life, queues in enumerate(lives)
        for queue_id, count in queues.items()
        for number in range(count)
    )
    wanted = sorted(each for of in of_last_life(lives).values() for each in of)
    for topics in ("", "orders"):
        spark = rows(root, topics=topics, splitBytes="5000")
        assert sorted(each["body"] for each in spark if each["topic"] == "orders") == wanted
    assert sum(each["topic"] == "ships" for each in rows(root)) == len(lives)
    assert len(rows(root, topics="orders", deletedTopics="true")) == len(every)
    columns = ["body"]
    read = offline.read(root, topics=["orders"], columns=columns).read_all()
    assert sorted(read["body"].to_pylist()) == wanted
    read = offline.read(root, topics=["orders"], columns=columns, with_deleted=True).read_all()
    assert sorted(read["body"].to_pylist()) == every


def test_queues_made_anew_of_a_log_with_a_dead_namesake_are_the_brokers(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    there = queue_files(root)
    assert rebuilt(root, SMALL, is_check=True).findings == []
    assert rebuilt(root, SMALL).findings == []
    assert queue_files(root) == there
    assert bodies(root) == of_last_life(lives)


def test_an_archive_with_a_dead_namesake_is_restored_as_the_store_was(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    archived(root, tmp_path / "archive")
    back = restored(tmp_path / "archive", tmp_path / "back")
    assert queue_files(back) == queue_files(root)
    assert bodies(back) == bodies(root) == of_last_life(lives)
    assert verdict_of(back).is_sound


def test_rows_of_packed_queues_make_the_queues_of_the_last_life(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    packed = [
        (row["topic"], row["queueId"], row["queueOffset"], row["messages"])
        for row in rows(root, view="packed-cq", splitBytes="3000")
    ]
    messages: dict[tuple[str, int], int] = {}
    for topic, queue_id, _, count in packed:
        messages[topic, queue_id] = messages.get((topic, queue_id), 0) + count
    wanted = {("orders", queue_id): count for queue_id, count in lives[-1].items()}
    assert messages == {**wanted, ("ships", 0): len(lives)}


def test_a_store_is_the_same_as_its_restored_copy_and_its_archive(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    archived(root, tmp_path / "archive")
    back = restored(tmp_path / "archive", tmp_path / "back")
    for other in (back, tmp_path / "archive"):
        for pair in ((root, other), (other, root)):
            found = compare_folders(str(pair[0]), str(pair[1]), clock=CLOCK, is_exact=True)
            assert found.is_same, found.findings
            assert found.rows[0] == sum(lives[-1].values()) + len(lives)


def test_a_repair_gives_the_messages_of_the_last_life(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    repair(str(root), None, clock=CLOCK, disk=RealDisk())
    found = bodies(root)
    for queue_id, wanted in of_last_life(lives).items():
        assert found[queue_id] == wanted


@pytest.mark.parametrize(
    ("first", "second", "dropped"),
    [
        ({0: 150}, {0: 30}, 1),  # Of the first life only the end is left.
        ({0: 60}, {0: 120}, 2),  # Nothing of it is, and the second has lost its begin.
        ({0: 150, 1: 2}, {0: 3}, 2),
        ({0: 100, 1: 100}, {0: 60, 1: 1}, 3),
    ],
)
def test_what_expired_of_a_dead_namesake_is_not_missed(tmp_path, first, second, dropped):
    root = made(tmp_path / "store", [first, second])
    whole = bodies(root)
    archived(root, tmp_path / "archive")
    for path in sorted((root / "commitlog").iterdir())[:dropped]:
        path.unlink()
    left = bodies(root)
    assert left[0] == whole[0][-len(left[0]) :]
    assert errors_of(root) == []
    assert compare_folders(str(root), str(tmp_path / "archive"), clock=CLOCK).is_same
    rebuilt(root, SMALL)
    assert bodies(root) == left
    shutil.rmtree(tmp_path / "archive")
    archived(root, tmp_path / "archive")
    assert bodies(restored(tmp_path / "archive", tmp_path / "back")) == left


def test_without_its_queue_files_the_log_alone_says_which_life_is_the_last(tmp_path, lives):
    root = made(tmp_path / "store", lives)
    shutil.rmtree(root / "consumequeue")
    (root / "checkpoint.cometmq").unlink()
    rebuilt(root, SMALL)
    found = bodies(root)
    for queue_id, wanted in of_last_life(lives).items():
        assert found[queue_id] == wanted
    if all(life.keys() == {0} for life in lives):
        assert found == of_last_life(lives)


def test_a_store_that_was_killed_with_a_dead_namesake_is_sound(tmp_path, lives, clock):
    store = open_store(tmp_path / "alive", clock=clock)
    live(store, lives)
    settle(store, clock)
    put(store, b"the last one", queue_id=3)
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "alive", killed)
    store.close()
    assert errors_of(named(killed)) == []
    archived(killed, tmp_path / "archive")
    back = restored(tmp_path / "archive", tmp_path / "back")
    assert bodies(back) == {**of_last_life(lives), 3: [b"the last one"]} == bodies(killed)
    rebuilt(killed, SMALL)
    assert bodies(killed) == bodies(back)


def test_topics_that_were_deleted_for_good_stay_deleted_in_a_restored_store(tmp_path):
    root = tmp_path / "store"
    with writing(root) as store:
        live(store, [{0: 5, 1: 5}, {0: 2}])
        store.delete_topic("orders")
        put(store, b"last", topic="ships")
    named(root, "ships")
    archived(root, tmp_path / "archive")
    assert bodies(restored(tmp_path / "archive", tmp_path / "back")) == {}
    assert rebuilt(root, SMALL, is_check=True).findings == []


def rewritten(root: Path, number: int, offset: int) -> None:
    """Give a record another queue offset, which no CRC covers."""
    (log,) = (root / "commitlog").glob("0" * 20)
    content, at = bytearray(log.read_bytes()), 0
    for _ in range(number):
        at += int.from_bytes(content[at : at + 4])
    content[at + 20 : at + 28] = offset.to_bytes(8)
    log.write_bytes(content)


@pytest.mark.parametrize("deleted_before", [0, 4])
def test_two_records_of_one_life_in_one_place_are_still_damage(tmp_path, deleted_before):
    root = tmp_path / "store"
    with writing(root) as store:
        put(store, *[b"old"] * deleted_before)
        if deleted_before:
            store.delete_topic("orders")
        put(store, *[b"%d" % number for number in range(8)])
    named(root)
    rewritten(root, deleted_before + 5, 3)
    verdict = verdict_of(root)
    assert [each.where for each in verdict.findings if each.is_error] == ["orders/0 at 3"] or (
        not verdict.is_sound
    )
    shutil.rmtree(root / "consumequeue")
    with pytest.raises(
        StoreDamaged, match="have the queue offset 3 of orders/0: one at physical offset"
    ):
        rebuilt(root, SMALL)


def test_entries_that_are_missing_beside_a_dead_namesake_are_still_an_error(tmp_path):
    root = made(tmp_path / "store", [{0: 9, 1: 3}, {0: 6, 1: 8}])
    (path,) = (root / "consumequeue/orders/0").iterdir()
    content = bytearray(path.read_bytes())
    content[4 * 20 : 6 * 20] = bytes(40)
    path.write_bytes(content)
    errors = errors_of(root)
    assert [each.where for each in errors] == ["orders/0"]
    assert errors[0].what.startswith("2 entries from 4 on are missing")
    shutil.rmtree(root / "consumequeue/orders/1")
    assert {each.where for each in errors_of(root)} == {"orders/0", "orders/1"}
