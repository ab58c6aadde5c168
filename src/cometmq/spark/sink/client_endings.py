"""Ends of transactions by way of the client, many at once.

Next: cometmq.spark.sink.checks
"""

import asyncio
from collections.abc import Callable, Sequence

from cometmq.client.hub import Hub
from cometmq.client.namespace import NO_NAMESPACE, Namespace
from cometmq.client.queries import ALL_TIME
from cometmq.client.sync.portal import portal
from cometmq.client.transactions import TransactionState
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import QueryMessageRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.spark.sink.halves import Halves

_AT_ONCE = 256
_FOUND_MAX = 8  # Messages of one id: one, unless somebody made more by hand.


class ClientEndings:
    """Ends transactions of a group (`halves.Endings`).

    Args:
        hub: connections, to be closed by who made them.
        group: the halves' producer group.
        namespace: in front of the halves' topics.
    """

    def __init__(self, hub: Hub, group: str, namespace: Namespace = NO_NAMESPACE) -> None:
        self._hub = hub
        self._namespace = namespace
        self._group = group

    def end(
        self, halves: Halves, state: TransactionState, *, is_late: bool
    ) -> Sequence[CometError | None]:
        """Commit or roll back; what went wrong, for each."""

        def command(index: int) -> Command:
            header = EndTransaction(
                self._group,
                halves.queue_offsets[index],
                halves.log_offsets[index],
                int(state),
                halves.ids[index],
                topic=self._namespace.wrap(halves.topic),
                from_transaction_check=is_late,
                transaction_id=halves.ids[index],
                broker_name=halves.broker,
            )
            return Command(RequestCode.END_TRANSACTION, fields=encode_fields(header))

        answers: list[Command | CometError] = portal().call(self._ask_all, halves, command)
        return [answer if isinstance(answer, CometError) else None for answer in answers]

    def committed(self, halves: Halves) -> Sequence[bool]:
        """Whether each is there as a message.

        Raises:
            CometError: its broker cannot be asked.
        """

        def command(index: int) -> Command:
            request = QueryMessageRequest(
                self._namespace.wrap(halves.topic),
                halves.ids[index],
                _FOUND_MAX,
                0,
                ALL_TIME,
                "true",
            )
            return Command(RequestCode.QUERY_MESSAGE, fields=encode_fields(request))

        answers: list[Command | CometError] = portal().call(self._ask_all, halves, command)
        return [
            _is_committed(answer, message_id)
            for answer, message_id in zip(answers, halves.ids, strict=True)
        ]

    async def _ask_all(
        self, halves: Halves, command: Callable[[int], Command]
    ) -> list[Command | CometError]:
        """The answer to each, or what stood in its place."""
        answers: list[Command | CometError] = []
        for start in range(0, len(halves.ids), _AT_ONCE):
            indexes = range(start, min(start + _AT_ONCE, len(halves.ids)))
            answers += await asyncio.gather(
                *(self._ask(halves, command(index)) for index in indexes)
            )
        return answers

    async def _ask(self, halves: Halves, command: Command) -> Command | CometError:
        try:
            await self._hub.known(self._namespace.wrap(halves.topic))
            return await self._hub.ask(self._hub.address(halves.broker), command)
        except CometError as error:
            return error


def _is_committed(answer: Command | CometError, message_id: str) -> bool:
    """Whether the found messages have a committed one.

    Raises:
        CometError: there was no answer.
    """
    if isinstance(answer, BrokerRefused) and answer.code == ResponseCode.QUERY_NOT_FOUND:
        return False
    if isinstance(answer, CometError):
        raise answer
    return any(
        record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        and record.properties().get(keys_of.UNIQ_KEY) == message_id
        for record in decode_records(answer.body)
    )
