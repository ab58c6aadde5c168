"""The request that ends a transaction: sent with an answer, or as the answer to a check."""

from typing import NamedTuple

from cometmq.client.api.asking import BrokerAsker
from cometmq.client.results import SendResult
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.transaction import CheckTransaction, EndTransaction
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.channel import Channel


class HalfMessage(NamedTuple):
    """A half message, as the answer to its send tells of it.

    Attributes:
        message_id: the id that its producer gave it.
        topic: where it is to go.
        broker_name: of the broker that has it.
        queue_offset: in the queue of half messages.
        commitlog_offset: where it lies, bytes.
        transaction_id: as the broker named it; None: the message id.
    """

    message_id: str
    topic: str
    broker_name: str
    queue_offset: int
    commitlog_offset: int
    transaction_id: str | None = None

    @classmethod
    def of(cls, sent: SendResult) -> "HalfMessage":
        """The half message of which the answer to its send tells.

        Raises:
            CodecError: the answer does not say where it lies.
        """
        _, commitlog_offset = decode_message_id(sent.offset_message_id)
        return cls(
            sent.message_id, sent.queue.topic, sent.queue.broker_name,
            sent.queue_offset, commitlog_offset, sent.transaction_id,
        )  # fmt: skip


class TransactionApi:
    """Ends the transactions of one producer group."""

    def __init__(self, asks: BrokerAsker, group: str) -> None:
        """Use these connections."""
        self._asks = asks
        self._group = group

    async def end(
        self,
        address: str,
        half: HalfMessage,
        state: int,
        *,
        is_late: bool = False,
        remark: str = "",
    ) -> None:
        """Commit a half message or roll it back.

        Args:
            address: of its broker.
            half: the message.
            state: as `TransactionState` numbers it.
            is_late: as if it were the answer to a check, which a broker takes at any time.
            remark: why, for the broker's log.

        Raises:
            BrokerRefused: it has ended otherwise, or the broker has lost it.
            NetError, CodecError: there is no answer.
        """
        header = EndTransaction(
            self._group,
            half.queue_offset,
            half.commitlog_offset,
            state,
            half.message_id,
            topic=half.topic,
            from_transaction_check=is_late,
            transaction_id=half.transaction_id or half.message_id,
            broker_name=half.broker_name,
        )
        await self._asks.ask(address, _command(header, remark))

    def answer_check(
        self,
        channel: Channel,
        asked: CheckTransaction,
        state: int,
        message_id: str,
        remark: str = "",
    ) -> None:
        """Answer a broker's check of a half message; the broker answers nothing.

        Raises:
            ConnectionLost: the broker is gone.
        """
        header = EndTransaction(
            self._group,
            asked.tran_state_table_offset,
            asked.commit_log_offset,
            state,
            message_id,
            topic=asked.topic,
            from_transaction_check=True,
            transaction_id=asked.transaction_id,
            broker_name=asked.broker_name,
        )
        channel.oneway(_command(header, remark))


def _command(header: EndTransaction, remark: str) -> Command:
    fields = encode_fields(header)
    return Command(RequestCode.END_TRANSACTION, fields=fields, remark=remark or None)
