"""The request END_TRANSACTION, sent with an answer expected, or one-way as the answer to a check."""

from typing import TYPE_CHECKING, NamedTuple

from cometmq.client.results import SendResult
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.transaction import CheckTransaction, EndTransaction
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.channel import Channel

if TYPE_CHECKING:
    from cometmq.client.connection.instance import ClientInstance


class HalfMessage(NamedTuple):
    """A half message, identified by the result of its send.

    Attributes:
        message_id: Id that its producer assigned.
        topic: Topic to which it is delivered when it is committed.
        broker_name: Broker that stores it.
        queue_offset: Offset in the queue of half messages.
        commitlog_offset: Physical offset in the broker's log, bytes.
        transaction_id: Transaction id of the broker; None: the message id.
    """

    message_id: str
    topic: str
    broker_name: str
    queue_offset: int
    commitlog_offset: int
    transaction_id: str | None = None

    @classmethod
    def of(cls, sent: SendResult) -> "HalfMessage":
        """Return the half message of a send's result; raise CodecError if it contains no valid offset message id."""
        _, commitlog_offset = decode_message_id(sent.offset_message_id)
        return cls(
            sent.message_id, sent.queue.topic, sent.queue.broker_name,
            sent.queue_offset, commitlog_offset, sent.transaction_id,
        )  # fmt: skip


class TransactionApi:
    """Ends the transactions of one producer group, and answers checks of them."""

    def __init__(self, asks: "ClientInstance", group: str) -> None:
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
        """Report the outcome of a half message to its broker: commit, rollback, or not known yet.

        Args:
            address: Address of its broker.
            half: The half message.
            state: Number of a `TransactionState`.
            is_late: Whether to send it like the answer to a check, which a broker accepts after any check immunity time.
            remark: Reason, for the broker's log.

        Raises:
            BrokerRefused: The broker refuses, for example because the transaction has ended otherwise or is lost.
            NetError, CodecError: There is no valid answer; Java brokers do not answer "not known yet".
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
        """Answer a broker's check of a half message, one-way; raise ConnectionLost if the connection is closed."""
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
