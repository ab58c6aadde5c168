"""The blocking `Transaction`: of a blocking producer; written by hand, since its end knows its exception."""

from types import TracebackType
from typing import Self

from cometmq.client.producer.transactions import AsyncTransaction
from cometmq.client.results import SendResult
from cometmq.client.sync.portal import Portal


class Transaction:
    """One transaction, from its half message to its end. Made by `Producer.transaction`."""

    def __init__(self, portal: Portal, transaction: AsyncTransaction) -> None:
        self._portal = portal
        self._transaction = transaction

    @property
    def half(self) -> SendResult:
        """The result of sending the half message; its `message_id` is the transaction's.

        Raises:
            MessageError: it was not sent yet.
        """
        return self._transaction.half

    def commit(self) -> None:
        """Commit: consumers get the message; the block's end does so, too.

        Raises:
            MessageError: it has ended already.
            BrokerRefused: the broker has ended it otherwise.
        """
        self._portal.call(self._transaction.commit)

    def rollback(self) -> None:
        """Roll back: nobody gets the message; an exception that leaves the block does so, too.

        Raises:
            MessageError, BrokerRefused: as `commit`.
        """
        self._portal.call(self._transaction.rollback)

    def __enter__(self) -> Self:
        """Send the half message."""
        self._portal.call(self._transaction.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an exception, unless you did."""
        self._portal.call(self._transaction.__aexit__, kind, error, trace)
