"""Answers brokers that ask what became of half messages: the ledger knows.

    with TransactionChecks("localhost:9876", group="orders-sink", ledger_dir="/data/ledgers"):
        query.awaitTermination()

What a task left behind that was killed is rolled back, and what a ledger lists is committed. The
driver's own commits answer too while their process lives; this answers all the time.
"""

import asyncio
import logging
from pathlib import Path
from types import TracebackType
from typing import Self

from cometmq.client.api.transactions import TransactionApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.namespace import namespace_of
from cometmq.client.producer.transactions import TransactionState
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.heartbeat import ProducerPart
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.credentials import Credentials
from cometmq.model.errors import CometError
from cometmq.model.names import HALF_TOPIC
from cometmq.model.tls import TlsSettings
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks
from cometmq.spark.sink.encode import SPARK_RUN
from cometmq.spark.sink.halves import BatchKey
from cometmq.spark.sink.ledger import DONE, Ledgers

log = logging.getLogger(__name__)


def verdict(
    ledgers: Ledgers, key: BatchKey, *, broker: str, message_id: str, is_over: bool
) -> TransactionState:
    """The state of the transaction of a half message.

    Args:
        ledgers: what was decided.
        key: its batch.
        broker: who has it.
        message_id: its id.
        is_over: its immunity has passed, so that no commit will begin with it.

    Raises:
        CometError: the ledger cannot be read.
    """
    entry = ledgers.read(key)
    if entry is not None:
        is_wanted = entry.state != DONE and any(
            each.broker == broker and message_id in each.ids for each in entry.halves
        )
        return TransactionState.COMMIT if is_wanted else TransactionState.ROLLBACK
    if not ledgers.is_known(key.query):
        return TransactionState.UNKNOWN  # Another driver's, with another folder.
    if is_over or ledgers.newest(key.query) > key.batch:
        return TransactionState.ROLLBACK
    return TransactionState.UNKNOWN


class LedgerMember:
    """The driver as brokers see it: a producer of the group that answers checks.

    Args:
        group: the halves' producer group.
        ledgers: what was decided.
        instance: whose clock it goes by.
    """

    def __init__(self, group: str, ledgers: Ledgers, instance: ClientInstance) -> None:
        self.group = group
        self._ledgers = ledgers
        self._instance = instance
        self._api = TransactionApi(instance, group)
        self._tasks = Tasks(f"{group} checks")

    def heartbeat_part(self) -> ProducerPart:
        """The part of a heartbeat that announces this producer to brokers."""
        return ProducerPart(self.group)

    def topics(self) -> list[str]:
        """The topic of halves: whoever has one must know us."""
        return [HALF_TOPIC]

    def take_request(self, command: Command, channel: Channel) -> bool:
        """CHECK_TRANSACTION_STATE 39 of a half that a sink has sent."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return False
        properties = decode_record(command.body).properties()
        if properties.get(keys_of.PRODUCER_GROUP) != self.group or SPARK_RUN not in properties:
            return False
        self._tasks.spawn(self._answer(command, channel), "check")
        return True

    async def close(self) -> None:
        """End the answers that are under way."""
        await self._tasks.close()

    async def _answer(self, command: Command, channel: Channel) -> None:
        asked = decode_fields(CheckTransaction, command.fields)
        try:
            state = await asyncio.to_thread(self._state, asked, command.body)
            self._api.answer_check(channel, asked, state, asked.msg_id or "")
        except (CometError, OSError, ValueError) as error:
            log.warning("the check of %s was not answered: %s", asked.msg_id, error)

    def _state(self, asked: CheckTransaction, content: bytes) -> TransactionState:
        record = decode_record(content)
        properties = record.properties()
        seconds = int(properties.get(keys_of.CHECK_IMMUNITY_SECONDS, "0"))
        age_ms = self._instance.clock.now_ms() - record.born_timestamp
        state = verdict(
            self._ledgers,
            BatchKey.read(properties[SPARK_RUN]),
            broker=asked.broker_name or "",
            message_id=properties.get(keys_of.UNIQ_KEY, ""),
            is_over=age_ms > seconds * 1000,
        )
        log.info("%s asks about %s: %s", asked.broker_name, properties[SPARK_RUN], state.name)
        return state


class TransactionChecks:
    """Answers the checks of a group while it is open.

    Args:
        nameservers: "host:port", several separated by `;`.
        group: the sink's option `group`.
        ledger_dir: the sink's option `ledgerDir`.
        namespace: its option `rocketmq.namespace`.
        credentials: what its requests are signed with.
        tls: how its connections are encrypted.
    """

    def __init__(
        self,
        nameservers: str,
        *,
        group: str,
        ledger_dir: str | Path,
        namespace: str = "",
        credentials: Credentials | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        self.instance = ClientInstance(
            nameservers, ClientSettings(credentials=credentials, tls=tls)
        )
        group = namespace_of(namespace).wrap(group)
        self._member = LedgerMember(group, Ledgers(Path(ledger_dir)), self.instance)

    def __enter__(self) -> Self:
        """Begin to answer."""
        portal().call(self._open)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Leave the group."""
        portal().call(self._close)

    async def _open(self) -> None:
        await self.instance.start()
        await self.instance.join(self._member)
        await self.instance.refresh()
        await self.instance.beat()

    async def _close(self) -> None:
        await self._member.close()
        await self.instance.leave(self._member)
        await self.instance.close()
