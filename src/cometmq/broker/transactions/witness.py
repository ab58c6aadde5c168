"""Was a transaction committed already, though no op says so? The index knows.

Ops can be missing after a power cut within a write, and after the kill of a Java broker, which writes
them up to 3 s later. So a half that was open at the start is looked up before it is asked about or
committed: a committed message has the half's unique key.

Next: cometmq.store.message_search
"""

import asyncio

from cometmq.broker.parts import Parts
from cometmq.broker.transactions.ledger import Ledger, OpenHalf
from cometmq.broker.transactions.settling import Settling
from cometmq.codec.record import decode_record
from cometmq.model import properties as keys_of
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK

COMMITTED = "committed"
# Messages of one key: the committed one, and others that were sent with the same key by hand.
_LOOKED_AT_MAX = 8


class Witness:
    """Looks halves of the last life up."""

    def __init__(self, parts: Parts, ledger: Ledger, settling: Settling) -> None:
        self._parts = parts
        self._ledger = ledger
        self._settling = settling

    async def is_open(self, half: OpenHalf) -> bool:
        """Whether a half is open in truth; one that was committed is ended, without a second message.

        Raises:
            StoreError, CodecError, OSError: it could not be looked up, or its op not be written.
        """
        is_committed = half.is_inherited and await self._was_committed(half)
        if is_committed and self._is_known(half):
            await self._settling.end(half, None, became=COMMITTED)
        half.is_inherited = False
        return self._is_known(half)

    def _is_known(self, half: OpenHalf) -> bool:
        return self._ledger.open.get(half.key) is half

    async def _was_committed(self, half: OpenHalf) -> bool:
        search = self._parts.store.search(
            half.key.topic, half.key.message_id, max_count=_LOOKED_AT_MAX
        )
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._parts.pool, search.run)
        for content in found.records:
            record = decode_record(content)
            if (
                record.topic == half.key.topic
                and record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
                and record.properties().get(keys_of.UNIQ_KEY) == half.key.message_id
            ):
                return True
        return False
