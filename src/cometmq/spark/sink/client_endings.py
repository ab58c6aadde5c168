"""Ends of transactions by way of the client, many at once.

Next: cometmq.spark.sink.checks
"""

from collections.abc import Sequence

from cometmq.client import EncodedProducer, TransactionState
from cometmq.model.errors import CometError
from cometmq.spark.sink.halves import Halves


class ClientEndings:
    """Ends transactions of a group (`halves.Endings`).

    Args:
        producer: of the halves' group, to be closed by who made it.
    """

    def __init__(self, producer: EncodedProducer) -> None:
        self._producer = producer

    def end(
        self, halves: Halves, state: TransactionState, *, is_late: bool
    ) -> Sequence[CometError | None]:
        """Commit or roll back; what went wrong, for each."""
        return self._producer.end(halves.messages(), state, late=is_late)

    def committed(self, halves: Halves) -> Sequence[bool]:
        """Whether each is there as a message.

        Raises:
            CometError: its broker cannot be asked.
        """
        return self._producer.committed(halves.messages())
