"""Transactions, as `AsyncAdmin.transactions`: half messages that brokers gave up."""

from cometmq.client.admin.noun import AsyncNoun
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id


class AsyncTransactionAdmin(AsyncNoun):
    """The transactions of a cluster."""

    _noun = "transactions"

    async def resume(self, offset_message_id: str) -> None:
        """Make a broker check a half message again that it discarded, by its offset message id in TRANS_CHECK_MAX_TIME_TOPIC."""
        host, _offset = decode_message_id(offset_message_id)
        await self._brokers.resume_check(decode_host(host), offset_message_id)
