"""The blocking `Transaction` of a blocking producer; written by hand, because its `__exit__` needs the exception."""

from types import TracebackType
from typing import Self

from cometmq.client.producer.transactions import AsyncTransaction
from cometmq.client.results import SendResult
from cometmq.client.sync.portal import Portal


class Transaction:
    """A transaction, from its half message to its commit or rollback; made by `Producer.transaction`."""

    def __init__(self, portal: Portal, transaction: AsyncTransaction) -> None:
        self._portal = portal
        self._transaction = transaction

    @property
    def half(self) -> SendResult:
        """The result of the half message; its `message_id` identifies the transaction.

        Raises:
            MessageError: The half message was not sent yet.
        """
        return self._transaction.half

    def commit(self) -> None:
        """Commit, so that consumers receive the message; the end of the block also commits.

        Raises:
            MessageError: The transaction has ended already.
            BrokerRefused: The transaction was rolled back already, or the broker has lost it.
        """
        self._portal.call(self._transaction.commit)

    def rollback(self) -> None:
        """Roll back, so that no consumer receives the message; an exception in the block also rolls back.

        Raises:
            MessageError, BrokerRefused: As in `commit`.
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
        """Commit, or roll back after an exception, unless the block has done so."""
        self._portal.call(self._transaction.__aexit__, kind, error, trace)
