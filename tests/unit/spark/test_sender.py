"""Batches on their way: bounded, in order where it matters, tried again where it may help."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from cometmq import TransactionState
from cometmq.admin import HalfMessage
from cometmq.client.results import SendResult, SendStatus
from cometmq.connect import EncodedProducer
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    ConnectionLost,
    RequestTimeout,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink import batch_committer
from cometmq.spark.sink.batch_committer import BatchCommitter
from cometmq.spark.sink.batches import Request, RowBatch, RowPlace, SingleSend, SingleSends
from cometmq.spark.sink.checks import verdict
from cometmq.spark.sink.cluster import Outcomes, SinkCluster
from cometmq.spark.sink.columns import RowTarget
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages
from cometmq.spark.sink.ledger import COMMITTING, DONE, Ledgers
from cometmq.spark.sink.sender import StoredRows, TaskSender
from cometmq.spark.sink.settings import SinkSettings


class Answers(Future[Outcomes]):
    """What the cluster says of a request, as soon as somebody waits for it."""

    def __init__(self, cluster: "Cluster", queue: MessageQueue, bodies: list[bytes]) -> None:
        super().__init__()
        self.cluster = cluster
        self.queue = queue
        self.bodies = bodies

    def result(self, timeout: float | None = None) -> Outcomes:
        assert timeout is None
        self.cluster.under_way -= 1
        return [self.outcome(body) for body in self.bodies]

    def outcome(self, body: bytes) -> SendResult | CometError:
        if self.cluster.failures:
            return self.cluster.failures.pop(0)
        offset = self.cluster.stored.setdefault(self.queue, 0)
        self.cluster.stored[self.queue] += len(body)
        self.cluster.order.append((self.queue, body))
        return SendResult(self.cluster.statuses.pop(0), "", "", self.queue, offset)


@dataclass
class Cluster:
    """Takes batches; a byte is a message."""

    queues: list[MessageQueue]
    failures: list[CometError] = field(default_factory=list)
    stored: dict[MessageQueue, int] = field(default_factory=dict)
    order: list[tuple[MessageQueue, bytes]] = field(default_factory=list)
    statuses: list[SendStatus] = field(default_factory=lambda: [SendStatus.OK] * 100)
    under_way: int = 0
    most_under_way: int = 0

    def writable_queues(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self.queues if queue.topic == topic]

    def start(self, request: Request) -> Answers:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        topic, queue = request.place
        bodies = (
            [each.body for each in request.messages]
            if isinstance(request, SingleSends)
            else [request.body]
        )
        return Answers(self, queue or self.writable_queues(topic)[0], bodies)


QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in (0, 1)]


def make(*failures: CometError, **options: str) -> tuple[TaskSender, Cluster]:
    cluster = Cluster(QUEUES, list(failures))
    settings = SinkSettings.parse({"nameserver": "x:1", **options})
    return TaskSender(cast("SinkCluster", cluster), settings), cluster


def batch(body: bytes, queue: MessageQueue | None = None) -> RowBatch:
    return RowBatch(RowPlace("t", queue), len(body), body)


def test_no_more_is_under_way_than_allowed_and_all_is_waited_for():
    sender, cluster = make(maxInflight="3")
    for _ in range(10):
        sender.send(batch(b"xx"))
    sender.finish()
    assert cluster.most_under_way == 3
    assert cluster.under_way == 0
    assert sender.stored == {QUEUES[0]: StoredRows(rows=20, first=0, last=19)}


def test_a_queue_that_rows_chose_gets_one_request_at_a_time():
    sender, cluster = make()
    for number in range(5):
        sender.send(batch(bytes([number]), QUEUES[1]))
        assert cluster.under_way == 1
    sender.finish()
    assert [body[0] for _, body in cluster.order] == [0, 1, 2, 3, 4]


def test_a_failed_request_is_tried_again_before_the_next_of_its_queue():
    sender, cluster = make(RequestTimeout("no word"))
    sender.send(batch(b"1", QUEUES[1]))
    sender.send(batch(b"2", QUEUES[1]))
    sender.finish()
    assert [body for _, body in cluster.order] == [b"1", b"2"]


def test_a_request_that_fails_too_long_fails_the_task():
    sender, _ = make(*[RequestTimeout("no word")] * 9, deliveryTimeoutMs="250")
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(RequestTimeout, match="no word"):
        sender.finish()


def test_what_a_broker_refuses_is_not_tried_again():
    sender, cluster = make(BrokerRefused(13, "too long", "x:1"))
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(BrokerRefused, match="too long"):
        sender.finish()
    assert not cluster.order


def test_what_a_power_cut_could_take_back_is_sent_again():
    sender, cluster = make()
    cluster.statuses[0] = SendStatus.FLUSH_DISK_TIMEOUT
    sender.send(batch(b"1"))
    sender.finish()
    assert [body for _, body in cluster.order] == [b"1", b"1"]
    assert sender.stored[QUEUES[0]].rows == 1


def test_of_rows_that_travel_alone_those_that_failed_are_sent_again():
    sender, cluster = make()
    cluster.failures = [ConnectionLost("gone")]
    sender.send(
        SingleSends(RowPlace("t"), [SingleSend(0, 0, body, "") for body in (b"1", b"2", b"3")])
    )
    sender.finish()
    assert [body for _, body in cluster.order] == [b"2", b"3", b"1"]
    assert sender.delayed == 3


def test_a_task_has_a_queue_of_its_own_where_that_is_asked_for():
    sender, _ = make()
    sender.own_queue = 6
    assert sender.place_of(RowTarget("t")).queue == QUEUES[2]
    assert sender.place_of(RowTarget("t", "b", 1)).queue == QUEUES[3]


def test_a_key_chooses_the_queue_that_javas_clients_choose():
    sender, _ = make()
    place = sender.place_of(RowTarget("t", sharding_key="order-17"))
    assert place == RowPlace("t", QUEUES[abs(java_hash("order-17")) % 4])
    assert sender.place_of(RowTarget("t")) == RowPlace("t")


def test_rows_name_a_queue_of_a_broker():
    sender, _ = make()
    assert sender.place_of(RowTarget("t", "b", 1)).queue == QUEUES[3]
    for wrong in (RowTarget("t", "c", 1), RowTarget("t", "b"), RowTarget("t", queue_id=1)):
        with pytest.raises(SettingsError, match="they must match exactly one"):
            sender.place_of(wrong)
    with pytest.raises(TopicNotFound):
        sender.place_of(RowTarget("other", "b", 1))


KEY = BatchKey("query", 7)
SETTINGS = SinkSettings.parse(
    {
        "nameserver": "x:1",
        "delivery": "transactional",
        "ledgerDir": "unused",
        "transactionImmunity": "10s",
        "deliveryTimeoutMs": "300",
    },
    is_stream=True,
)


def half_messages(*ids: str, broker: str = "a") -> HalfMessages:
    return HalfMessages(broker, "t", list(ids), list(range(len(ids))), list(range(len(ids))))


@dataclass
class Brokers:
    """As a Java broker: a commit that comes again makes a second message."""

    messages: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    # What becomes of the next commits: "lost" (nothing arrives), "answer lost", "refused".
    troubles: dict[str, list[str]] = field(default_factory=dict)
    is_silent: bool = False

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> Sequence[CometError | None]:
        return [self._end(each.message_id, state) for each in half_messages]

    def _end(self, message_id: str, state: TransactionState) -> CometError | None:
        if state is TransactionState.ROLLBACK:
            self.rolled_back.append(message_id)
            return None
        troubles = self.troubles.get(message_id)
        trouble = troubles.pop(0) if troubles else ""
        if trouble == "refused":
            return BrokerRefused(604, "it was discarded", "a")
        if trouble != "lost":
            self.messages.append(message_id)
        return ConnectionLost("gone") if trouble else None

    def committed(self, half_messages: Sequence[HalfMessage]) -> Sequence[bool]:
        if self.is_silent:
            raise ConnectionLost("gone")
        return [each.message_id in self.messages for each in half_messages]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(batch_committer, "_PAUSE_SECONDS", 0.01)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def committer(tmp_path: Path, brokers: Brokers) -> BatchCommitter:
    return BatchCommitter(
        Ledgers(tmp_path), cast(EncodedProducer, brokers), SETTINGS, lambda: 10_000
    )


def commit(
    committer: BatchCommitter, *groups: HalfMessages, key: BatchKey = KEY, born_ms=9_000
) -> None:
    committer.commit(key, groups, born_ms=born_ms)


def test_a_batch_is_committed_and_its_ledger_says_so(committer, brokers):
    commit(committer, half_messages("1", "2"), half_messages("3", broker="b"))
    assert brokers.messages == ["1", "2", "3"]
    entry = committer.ledgers.read(KEY)
    assert (entry.state, entry.rows, entry.half_messages) == (DONE, 3, [])


def test_a_batch_that_was_done_changes_nothing_when_it_comes_again(committer, brokers):
    commit(committer, half_messages("1"))
    commit(committer, half_messages("new"))
    assert brokers.messages == ["1"]
    assert brokers.rolled_back == ["new"]


def test_a_ledger_of_a_life_before_is_finished_and_only_what_is_missing_is_written(
    committer, brokers
):
    committer.ledgers.begin(KEY, "g", [half_messages("1", "2")])
    brokers.messages.append("1")
    commit(committer, half_messages("new"))
    assert brokers.messages == ["1", "2"]
    assert brokers.rolled_back == ["new"]
    assert committer.ledgers.read(KEY).state == DONE


@pytest.mark.parametrize("trouble", ["lost", "answer lost"])
def test_a_commit_without_an_answer_is_looked_for_before_it_is_repeated(
    committer, brokers, trouble
):
    brokers.troubles["2"] = [trouble] * 2
    commit(committer, half_messages("1", "2", "3"))
    assert sorted(brokers.messages) == ["1", "2", "3"]


def test_a_commit_that_is_refused_fails_the_batch_and_names_the_message(committer, brokers):
    brokers.troubles["2"] = ["refused"]
    with pytest.raises(CometError, match=r"does not commit 2 for 't'.*discarded"):
        commit(committer, half_messages("1", "2"))
    assert committer.ledgers.read(KEY).state == COMMITTING


def test_a_broker_that_stays_away_fails_the_batch_and_the_next_life_finishes_it(
    committer, brokers
):
    brokers.troubles["2"] = ["lost"]
    brokers.is_silent = True
    with pytest.raises(
        CometError, match=r"1 message is not known to be committed.* 2 for 't' on a"
    ):
        commit(committer, half_messages("1", "2"))
    committer.abort(KEY, [half_messages("1", "2"), half_messages("late")])
    assert brokers.rolled_back == ["late"], "what a ledger lists must not be rolled back"
    brokers.is_silent = False
    commit(committer, half_messages("new"))
    assert brokers.messages == ["1", "2"]


def test_an_abort_before_the_ledger_drops_everything(committer, brokers):
    committer.abort(KEY, [half_messages("1", "2")])
    assert brokers.rolled_back == ["1", "2"]


def test_halves_that_a_check_might_have_ended_are_not_begun_with(committer, brokers):
    with pytest.raises(CometError, match="raise 'transactionImmunity'"):
        commit(committer, half_messages("1"), born_ms=4_000)
    assert committer.ledgers.read(KEY) is None
    assert brokers.messages == []


def test_two_drivers_cannot_both_decide(committer):
    committer.ledgers.begin(KEY, "g", [half_messages("1")])
    with pytest.raises(CometError, match="another driver"):
        committer.ledgers.begin(KEY, "g", [half_messages("2")])
    assert committer.ledgers.read(KEY).half_messages == [half_messages("1")]


def test_old_ledgers_go_but_never_one_that_is_open(committer):
    committer.ledgers.begin(BatchKey("query", 0), "g", [half_messages("open")])
    for batch in range(1, 120):
        commit(committer, half_messages(str(batch)), key=BatchKey("query", batch))
    kept = [batch for batch in range(120) if committer.ledgers.read(BatchKey("query", batch))]
    assert kept == [0, *range(20, 120)]


def test_a_file_that_is_no_ledger_is_an_error_and_not_an_empty_one(committer, tmp_path):
    committer.ledgers.make_folder("query")
    path = tmp_path / "query" / "7.json"
    path.write_text("{}")
    with pytest.raises(CometError, match="is not a ledger"):
        commit(committer, half_messages("1"))
    path.write_text(json.dumps({"v": 2}))
    with pytest.raises(CometError, match="has version 2"):
        commit(committer, half_messages("1"))


def says(ledgers: Ledgers, key: BatchKey, message_id="1", *, broker="a", is_over=False) -> str:
    return verdict(ledgers, key, broker=broker, message_id=message_id, is_over=is_over).name


def test_a_broker_that_asks_hears_what_the_ledger_decided(committer):
    ledgers = committer.ledgers
    assert says(ledgers, KEY, is_over=True) == "UNKNOWN", "a query of another folder"
    ledgers.begin(KEY, "g", [half_messages("1")])
    assert says(ledgers, KEY) == "COMMIT"
    assert says(ledgers, KEY, "2") == "ROLLBACK"
    assert says(ledgers, KEY, broker="b") == "ROLLBACK", "a copy that a retry made"
    assert says(ledgers, KEY, broker="") == "UNKNOWN", "a broker that does not say its name"
    ledgers.finish(KEY)
    assert says(ledgers, KEY, broker="") == "ROLLBACK"
    assert says(ledgers, KEY) == "ROLLBACK"
    assert says(ledgers, BatchKey("query", 6)) == "ROLLBACK", (
        "older than a batch that was decided"
    )
    assert says(ledgers, BatchKey("query", 8)) == "UNKNOWN", "may be committed yet"
    assert says(ledgers, BatchKey("query", 8), is_over=True) == "ROLLBACK"


def test_the_page_of_the_format_shows_a_ledger_that_is_read(committer, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "format" / "spark-ledger.md").read_text()
    text = page.split("```json\n")[1].split("```")[0]
    committer.ledgers.make_folder("8f0c")
    (tmp_path / "8f0c" / "7.json").write_text(text)
    entry = committer.ledgers.read(BatchKey("8f0c", 7))
    ids = ["7F000001…00", "7F000001…01"]
    assert entry.half_messages == [
        HalfMessages("broker-a", "orders", ids, [40, 41], [8192, 8601])
    ]
    committer.ledgers.begin(BatchKey("8f0c", 8), entry.group, entry.half_messages)
    written = (tmp_path / "8f0c" / "8.json").read_text()
    assert json.loads(written) == {**json.loads(text), "batch": 8}
