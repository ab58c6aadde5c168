"""Ends of transactions by way of the client, many at once.

Next: cometmq.spark.sink.checks
"""

from collections.abc import Sequence

from cometmq.client import TransactionState
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.transactions import HalfMessage, TransactionApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.sync.portal import portal
from cometmq.codec.record import decode_records
from cometmq.model import properties as keys_of
from cometmq.model.errors import CometError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.spark.sink.halves import Halves

_FOUND_MAX = 8  # Messages of one id: one, unless somebody made more by hand.


class ClientEndings:
    """Ends transactions of a group (`halves.Endings`).

    Args:
        instance: connections, to be closed by who made them.
        group: the halves' producer group.
        namespace: in front of the halves' topics.
    """

    def __init__(
        self, instance: ClientInstance, group: str, namespace: Namespace = NO_NAMESPACE
    ) -> None:
        self._instance = instance
        self._namespace = namespace
        self._transactions = TransactionApi(instance, group)
        self._messages = MessageApi(instance)

    def end(
        self, halves: Halves, state: TransactionState, *, is_late: bool
    ) -> Sequence[CometError | None]:
        """Commit or roll back; what went wrong, for each."""

        async def end(index: int) -> None:
            half = HalfMessage(
                halves.ids[index],
                self._namespace.wrap(halves.topic),
                halves.broker,
                halves.queue_offsets[index],
                halves.log_offsets[index],
            )
            address = await self._address(halves)
            await self._transactions.end(address, half, state, is_late=is_late)

        answers: list[CometError | None] = portal().call(
            side_by_side, end, range(len(halves.ids))
        )
        return answers

    def committed(self, halves: Halves) -> Sequence[bool]:
        """Whether each is there as a message.

        Raises:
            CometError: its broker cannot be asked.
        """

        async def is_committed(message_id: str) -> bool:
            found = await self._messages.find(
                await self._address(halves),
                self._namespace.wrap(halves.topic),
                message_id,
                count_max=_FOUND_MAX,
                is_id=True,
            )
            return found is not None and _is_committed(found.records, message_id)

        answers: list[bool | CometError] = portal().call(side_by_side, is_committed, halves.ids)
        return all_of(answers)

    async def _address(self, halves: Halves) -> str:
        await self._instance.known(self._namespace.wrap(halves.topic))
        return self._instance.address(halves.broker)


def _is_committed(records: bytes, message_id: str) -> bool:
    """Whether the found messages have a committed one."""
    return any(
        record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        and record.properties().get(keys_of.UNIQ_KEY) == message_id
        for record in decode_records(records)
    )
