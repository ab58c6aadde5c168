"""Transactions of a broker that is driven by hand: no socket, no second."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.transactions.checks import StateChecks
from cometmq.broker.transactions.ends import TransactionEnds
from cometmq.broker.transactions.prepared_messages import TransactionKey
from cometmq.broker.transactions.queues import PreparedEnd, TransactionQueues
from cometmq.broker.transactions.table import TransactionTable
from cometmq.codec.headers.transaction import CheckTransaction, EndTransaction
from cometmq.codec.record import Record, decode_record
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from cometmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.net.requests import any_topic
from cometmq.steps.steps import at_once
from tests.support.hand_broker import HandBroker
from tests.support.store_puts import HOST_V4

GROUP = "payers"
COMMIT, ROLLBACK = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
TOPICS = (TopicConfig("Paid", 2, 2), TopicConfig(TRANS_CHECK_MAX_TIME_TOPIC, 1, 1))


@dataclass(frozen=True)
class Half:
    """A half that the broker stored, as its producer knows it."""

    key: str
    offset: int
    physical_offset: int

    def end(
        self, how: int, *, is_check: bool = False, group: str = GROUP, place: int | None = None
    ) -> EndTransaction:
        physical = self.physical_offset if place is None else place
        return EndTransaction(
            group, self.offset, physical, how, self.key, from_transaction_check=is_check
        )


def key_of(number: int) -> str:
    return f"7F00000100000001{number:016X}"


@dataclass
class Life:
    """One life of a broker with transactions; the next one is `killed().`"""

    broker: HandBroker
    begin_at: tuple[int, int] = (0, 0)
    asked: list[tuple[CheckTransaction, Record]] = field(default_factory=list)

    def __post_init__(self) -> None:
        broker = self.broker
        self.table = TransactionTable(next_op=self.begin_at[1])
        self.queues = TransactionQueues(
            broker.parts,
            self.table,
            half_messages=broker.cursor(HALF_TOPIC, offset=self.begin_at[0]),
            ops_read=broker.cursor("RMQ_SYS_TRANS_OP_HALF_TOPIC", offset=self.begin_at[1]),
        )
        self.ends = TransactionEnds(broker.parts, self.table, self.queues)
        self.checks = StateChecks(broker.parts, self.table, self.queues, ask=self._ask)
        self.world = broker.world
        self.world.run(self.queues.load())

    def _ask(self, key: TransactionKey, header: CheckTransaction, record: bytes) -> None:
        assert key.producer_group == GROUP
        self.asked.append((header, decode_record(record)))

    def half(self, number: int, body: bytes | None = None, **properties: str) -> Half:
        """Store a half, as the reroute of a send would."""
        marks = {
            "UNIQ_KEY": key_of(number), "TRAN_MSG": "true", "PGROUP": GROUP, "TAGS": "t",
            "REAL_TOPIC": "Paid", "REAL_QID": "1", **properties,
        }  # fmt: skip
        topic = self.broker.topics.get(HALF_TOPIC)
        assert topic is not None
        message = InnerMessage(
            topic, 0, body or b"%d" % number, marks,
            born_ms=self.broker.clock.now_ms(), born_host=HOST_V4,
        )  # fmt: skip
        ((offset, physical_offset, _),) = self.broker.put(message)
        return Half(key_of(number), offset, physical_offset)

    def end(self, half: Half, how: int, **more: Any) -> str | None:
        return self.world.run(self.ends.end(half.end(how, **more), any_topic))

    def prepare(self, half: Half, how: int) -> PreparedEnd:
        """What is to be written for an end that waits for nothing."""
        end = at_once(self.ends.prepare(half.end(how), any_topic))
        assert end is not None, "it must wait"
        return end

    def check(self) -> None:
        self.world.run(self.checks.check())

    def answer(self, asked: tuple[CheckTransaction, Record], how: int) -> None:
        """What a producer does with a question."""
        header, _ = asked
        half = Half(
            header.msg_id or "", header.tran_state_table_offset, header.commit_log_offset
        )
        self.end(half, how, is_check=True)

    def paid(self) -> list[bytes]:
        return self.broker.bodies("Paid", 1)

    def killed(self, *, is_read_anew: bool = False) -> Life:
        """The next life, after a kill; offsets were saved just before, or never."""
        begin_at = (0, 0) if is_read_anew else self.queues.positions()
        broker = HandBroker(
            topics=TOPICS,
            transaction_timeout_ms=self.broker.settings.transaction_timeout_ms,
            transaction_check_max=self.broker.settings.transaction_check_max,
            chance=self.world._chance,
            **self.broker.killed(),
        )
        return Life(broker, begin_at)


def begin(*, chance: Random | None = None, **settings: Any) -> Life:
    return Life(HandBroker(topics=TOPICS, chance=chance, **settings))
