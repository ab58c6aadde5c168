"""The blocking `TransactionAdmin`: made by tools/sync_facade.py from cometmq.client.admin.transactions; do not edit."""

from cometmq.client.admin.transactions import AsyncTransactionAdmin
from cometmq.client.sync.client import BlockingNoun
from cometmq.model.message import StoredMessage


class TransactionAdmin(BlockingNoun[AsyncTransactionAdmin]):
    """The methods that list half messages that brokers discarded, and let them be checked again."""

    def resume(self, offset_message_id: str) -> None:
        """Make a broker check a half message again that it discarded, by its offset message id in TRANS_CHECK_MAX_TIME_TOPIC."""
        self._portal.call(self._client.resume, offset_message_id)

    def discarded(self) -> list[StoredMessage]:
        """Return the half messages that brokers discarded, for example after too many checks, by queue and offset."""
        return self._portal.call(self._client.discarded)
