"""`kill -9` of a master and its slave at a random time, the master's directory deleted, the slave promoted.

Until the last moment messages are sent, topics and groups are made, changed, deleted and made again, and groups commit.
What two members had acknowledged is compared with what the promoted broker gives to pulls and to a consumer of a group,
a push or a simple one: every message of a topic that lives, nothing of one that was deleted, nothing of a group that was
deleted, and each group sees what is sent from now on.
"""

import itertools
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cometmq import (
    ConsumeFrom,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    SimpleConsumerSettings,
    StoredMessage,
)
from cometmq.codec.bodies.group_config import encode_group_config
from cometmq.model.codes import RequestCode as Code
from cometmq.model.group import GroupConfig
from tests.support import processes
from tests.support.frames import connect, json_frame, parts_of, read_frame
from tests.support.load import read_queue, send_frame
from tests.support.request_fields import topic_fields

OK, TOPIC_NOT_EXIST, GROUP_NOT_EXIST = 0, 17, 26
# `PROMOTIONS=20 make crash` is the long run; a round takes some 5 s.
ROUNDS = int(os.environ.get("PROMOTIONS", "4"))
QUEUES_MAX = 16
LIVE_SECONDS = (0.3, 5.0)
GROUPS = ("billing", "reports", "audit")


STEPS = (
    "new",
    "auto",
    "widen",
    "delete",
    "again",
    "send",
    "commit",
    "commit",
    "group",
    "ungroup",
)


class Asker:
    """One connection to a broker; ConnectionError when that is gone."""

    def __init__(self, address: str) -> None:
        self._peer = connect(address)
        self._opaques = itertools.count(1)

    def close(self) -> None:
        self._peer.close()

    def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b""
    ) -> dict[str, object]:
        """The answer's header."""
        return self._exchange(json_frame(code, fields, body, opaque=next(self._opaques)))

    def send(self, topic: str, queue_id: int, body: bytes) -> int:
        """The answer's code."""
        frame = send_frame(
            topic, body, opaque=next(self._opaques), queue_id=queue_id, queues=QUEUES_MAX
        )
        code = self._exchange(frame)["code"]
        assert isinstance(code, int)
        return code

    def _exchange(self, frame: bytes) -> dict[str, object]:
        try:
            self._peer.sendall(frame)
            header: dict[str, object] = json.loads(parts_of(read_frame(self._peer))[1])
        except OSError as error:
            raise ConnectionError(str(error)) from error
        return header


@dataclass
class Life:
    """A topic since it was made.

    Attributes:
        queues: how many it was given.
        acknowledged: bodies that two members have.
        sent: bodies that may be there.
    """

    queues: int
    acknowledged: set[bytes] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)


Found = dict[bytes, tuple[str, int, int]]
"""Topic, queue and offset of each body."""


class Actor:
    """Makes, changes, deletes and uses topics and groups, and keeps the books of what was acknowledged.

    Attributes:
        topics: those that live.
        dead: those whose deletion was acknowledged, and that were not made again.
        dead_groups: those whose deletion was acknowledged, and that were not made again.
        doubted: what was under way when the broker went: a topic or a group.
        offsets: committed, by group, topic and queue.
        done: how many steps were acknowledged.
    """

    def __init__(self, address: str, chance: random.Random) -> None:
        self.topics: dict[str, Life] = {}
        self.dead: set[str] = set()
        self.dead_groups: set[str] = set(GROUPS)
        self.doubted: str | None = None
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.done = 0
        self._address = address
        self._chance = chance
        self._numbers = itertools.count()

    def run(self) -> None:
        """Act until the broker is gone."""
        with suppress(ConnectionError), closing(Asker(self._address)) as asker:
            while True:
                self._step(asker)
                self.done += 1

    def _step(self, asker: Asker) -> None:
        chance, names = self._chance, list(self.topics)
        step = chance.choice(STEPS)
        if step == "new" or (not names and step != "auto"):
            self._create(asker, f"New{next(self._numbers)}", chance.randint(1, QUEUES_MAX))
        elif step == "auto":
            name = f"Auto{next(self._numbers)}"
            self.doubted, self.topics[name] = name, Life(8)
            self._send(asker, name, chance.randrange(8))
        elif step == "widen":
            name = chance.choice(names)
            self._create(asker, name, max(self.topics[name].queues, QUEUES_MAX))
            self._send(asker, name, QUEUES_MAX - 1)
        elif step == "commit":
            self._commit(asker, chance.choice(GROUPS), chance.choice(names))
        elif step == "group":
            self._make_group(asker, chance.choice(GROUPS))
        elif step == "ungroup":
            self._delete_group(asker, chance.choice(GROUPS))
        elif step == "send":
            name = chance.choice(names)
            self._send(asker, name, chance.randrange(self.topics[name].queues))
        else:
            name = chance.choice(names)
            self._delete(asker, name)
            if step == "again":
                self._create(asker, name, chance.randint(1, QUEUES_MAX))

    def _create(self, asker: Asker, name: str, queues: int) -> None:
        self.doubted = name
        answer = asker.ask(
            Code.UPDATE_AND_CREATE_TOPIC,
            topic_fields(name, queues),
        )
        assert answer["code"] == OK, answer
        life = self.topics.setdefault(name, Life(queues))
        life.queues = max(life.queues, queues)
        self.dead.discard(name)
        for queue_id in range(queues):
            self._send(asker, name, queue_id)
        self.doubted = None

    def _send(self, asker: Asker, name: str, queue_id: int) -> None:
        life, body = self.topics[name], b"%s-%d" % (name.encode(), next(self._numbers))
        life.sent.add(body)
        if asker.send(name, queue_id, body) == OK:
            life.acknowledged.add(body)

    def _delete(self, asker: Asker, name: str) -> None:
        self.doubted = name
        life = self.topics.pop(name)
        answer = asker.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": name})
        assert answer["code"] == OK, answer
        assert life is not None
        self.dead.add(name)
        self.offsets = {key: each for key, each in self.offsets.items() if key[1] != name}
        self.doubted = None

    def _make_group(self, asker: Asker, group: str) -> None:
        self.doubted = group
        config = GroupConfig(group, retry_max_times=self._chance.randint(1, 16))
        body = encode_group_config(config)
        assert asker.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)["code"] == OK
        self.dead_groups.discard(group)
        self.doubted = None

    def _delete_group(self, asker: Asker, group: str) -> None:
        self.doubted = group
        fields = {"groupName": group, "cleanOffset": "true"}
        assert asker.ask(Code.DELETE_SUBSCRIPTIONGROUP, fields)["code"] == OK
        self.dead_groups.add(group)
        self.offsets = {key: each for key, each in self.offsets.items() if key[0] != group}
        self.doubted = None

    def _commit(self, asker: Asker, group: str, name: str) -> None:
        if group in self.dead_groups:
            self._make_group(asker, group)
        queue_id = self._chance.randrange(self.topics[name].queues)
        place = {"topic": name, "queueId": str(queue_id)}
        fields = asker.ask(Code.GET_MAX_OFFSET, place)["extFields"]
        assert isinstance(fields, dict)
        commit = {**place, "consumerGroup": group, "commitOffset": fields["offset"]}
        self.doubted = group
        if asker.ask(Code.UPDATE_CONSUMER_OFFSET, commit)["code"] == OK:
            self.offsets[group, name, queue_id] = int(fields["offset"])
        self.doubted = None


def check(actor: Actor, address: str, nameserver: str, *, is_push: bool) -> int:
    """Compare the books with what the promoted broker gives; the number of messages that were read."""
    found: Found = {}
    with closing(Asker(address)) as asker:
        for name, life in actor.topics.items():
            known = asker.ask(Code.GET_TOPIC_CONFIG, {"topic": name})["code"] == OK
            bodies = bodies_of(address, name) if known else {}
            check_life(name, life, set(bodies), is_doubted=name == actor.doubted)
            found |= bodies
        for name in actor.dead - {actor.doubted}:
            answer = asker.ask(Code.GET_TOPIC_CONFIG, {"topic": name})
            assert answer["code"] == TOPIC_NOT_EXIST, f"{name} was deleted, and is back"
        check_dead_groups(asker, actor)
        check_consumer(asker, actor, found, nameserver, is_push=is_push)
        # A topic that the slave's table lacked is there with as many queues as have messages.
        held = {(name, queue_id) for name, queue_id, _ in found.values()}
        for group, name, queue_id in actor.offsets:
            if actor.doubted not in (group, name) and (name, queue_id) in held:
                check_group(asker, address, group, name, queue_id)
    return len(found)


def check_life(name: str, life: Life, found: set[bytes], *, is_doubted: bool) -> None:
    """A topic has every message that was acknowledged, and none of a namesake that was deleted."""
    lost = life.acknowledged - found
    assert not lost, f"{len(lost)} of {len(life.acknowledged)} of {name} cannot be read"
    if not is_doubted:
        assert found <= life.sent, f"{name} holds messages of a dead namesake"


def check_dead_groups(asker: Asker, actor: Actor) -> None:
    """A group that was deleted is not back; no group has an offset of one that was deleted."""
    for group in actor.dead_groups - {actor.doubted}:
        answer = asker.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
        assert answer["code"] == GROUP_NOT_EXIST, f"{group} was deleted, and is back"
    for group, name in itertools.product(set(GROUPS) - {actor.doubted}, actor.topics):
        for queue_id in range(actor.topics[name].queues):
            key = group, name, queue_id
            if name != actor.doubted:
                assert stored_offset(asker, *key) <= actor.offsets.get(key, 0), (
                    f"{key}: the offset of a group or topic that was deleted is back"
                )


def stored_offset(asker: Asker, group: str, name: str, queue_id: int) -> int:
    """Where a group goes on; 0 if it begins anew."""
    place = {"consumerGroup": group, "topic": name, "queueId": str(queue_id)}
    answer = asker.ask(Code.QUERY_CONSUMER_OFFSET, place)
    fields = answer["extFields"] if answer["code"] == OK else {"offset": 0}
    assert isinstance(fields, dict)
    return int(fields["offset"])


def check_consumer(
    asker: Asker, actor: Actor, found: Found, nameserver: str, *, is_push: bool
) -> None:
    """A consumer of a group that had committed is given everything behind its offsets."""
    group = next((key[0] for key in actor.offsets if key[0] != actor.doubted), "newcomer")
    wanted = {
        body
        for body, (name, queue_id, offset) in found.items()
        if offset >= stored_offset(asker, group, name, queue_id)
    }
    if not wanted:
        return  # A short life: no topic was left, or its group had all of it.
    read = pushed if is_push else received
    # Those that have messages: the last one may have died with its only message, which nobody acknowledged.
    with read(nameserver, group, sorted({name for name, _, _ in found.values()})) as got:
        processes.wait_until(
            lambda: wanted <= got,
            seconds=90,
            what=f"{len(wanted)} messages at {group}, a {'push' if is_push else 'simple'} consumer",
        )
        assert got <= found.keys(), f"{group} is given what no pull finds"


@contextmanager
def pushed(nameserver: str, group: str, topics: list[str]) -> Iterator[set[bytes]]:
    """What a push consumer is given."""
    got: set[bytes] = set()

    def listen(message: StoredMessage) -> None:
        got.add(message.body)

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST)
    with PushConsumer(
        nameserver, group=group, listener=listen, subscriptions=topics, settings=settings
    ):
        yield got


@contextmanager
def received(nameserver: str, group: str, topics: list[str]) -> Iterator[set[bytes]]:
    """What a simple consumer is given."""
    got: set[bytes] = set()
    is_over = threading.Event()
    settings = SimpleConsumerSettings(wait_ms=500)

    def receive() -> None:
        while not is_over.is_set():
            messages = consumer.receive(32)
            got.update(message.body for message in messages)
            if messages:
                consumer.ack(messages)

    with SimpleConsumer(
        nameserver, group=group, subscriptions=topics, settings=settings
    ) as consumer:
        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield got
        finally:
            is_over.set()
            thread.join()


def bodies_of(address: str, name: str) -> Found:
    return {
        body: (name, queue_id, offset)
        for queue_id in range(QUEUES_MAX)
        for offset, body in read_queue(address, name, queue_id)
    }


def check_group(asker: Asker, address: str, group: str, name: str, queue_id: int) -> None:
    """A group sees what is sent now, and nothing of before is passed over."""
    start = stored_offset(asker, group, name, queue_id)
    new = b"new %s %s" % (group.encode(), name.encode())
    assert asker.send(name, queue_id, new) == OK
    found = read_queue(address, name, queue_id, start=start)
    assert new in {body for _, body in found}, f"{group} passes over new messages of {name}"


@contextmanager
def member(folder: Path, names: str, **settings: object) -> Iterator[processes.Program]:
    program = processes.broker(folder, names, settings={"defaultTopicQueueNums": 8, **settings})
    with program:
        yield program
        program.kill()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_two_members_acknowledged_is_read_after_a_promotion(tmp_path: Path, number: int):
    seed = os.environ.get("PROMOTION_SEED") or f"{time.time_ns()}"
    chance = random.Random(seed)
    role = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
    pool = "true" if number % 2 else "false"
    copy = {"brokerRole": "SLAVE", "brokerId": 1, "transientStorePoolEnable": pool}
    with (
        processes.nameserver(tmp_path) as names,
        member(tmp_path / "master", names.address, **role) as master,
        member(tmp_path / "slave", names.address, **copy) as slave,
    ):
        actor = Actor(master.address, chance)
        wait_for_copy(master.address)
        thread = threading.Thread(target=actor.run)
        thread.start()
        time.sleep(chance.uniform(*LIVE_SECONDS))
        # A master whose slave is gone answers a deletion alone: it does nothing more, whoever dies first.
        os.kill(master.pid, signal.SIGSTOP)
        for program in chance.sample((master, slave), 2):
            program.kill()
        thread.join()
        shutil.rmtree(tmp_path / "master")
        with member(tmp_path / "slave", names.address) as promoted:
            read = check(actor, promoted.address, names.address, is_push=number % 4 < 2)
    print(f"seed {seed}, pool {pool}: {actor.done} steps, {read} messages read, 0 lost")
    assert actor.done


def wait_for_copy(address: str) -> None:
    """Wait until a message is acknowledged by two members."""
    with closing(Asker(address)) as asker:
        processes.wait_until(
            lambda: asker.send("Warm", 0, b"warm") == OK, seconds=40, what="a slave in sync"
        )
