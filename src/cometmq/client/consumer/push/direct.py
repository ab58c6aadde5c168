"""Runs a listener on one message for a console (CONSUME_MESSAGE_DIRECTLY 309), beside all others.

Nothing is committed or sent back for it; the verdict is all. Follows
ConsumeMessageConcurrentlyService.consumeMessageDirectly of RocketMQ 5.3.3.
"""

import asyncio
import logging

from cometmq.client.consumer.listeners import ListenerCall, is_consumed
from cometmq.codec.bodies.running import DirectOutcome, DirectResult
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage

_log = logging.getLogger(__name__)


async def consume_directly(
    call: ListenerCall, message: StoredMessage, *, clock: Clock
) -> DirectOutcome:
    """Run the listener on one message, and report the outcome; an exception becomes text."""
    began = clock.monotonic()
    remark = None
    try:
        if call.is_async:
            said = await call.function([message])
        else:
            said = await asyncio.to_thread(call.function, [message])
        result = DirectResult.SUCCESS if is_consumed(said) else DirectResult.LATER
    except Exception as error:  # noqa: BLE001  A listener may raise anything; who asked is told.
        _log.info("the listener failed on %r, which a console gave it", message, exc_info=error)
        result = DirectResult.EXCEPTION
        remark = f"{type(error).__name__}: {error}"
    return DirectOutcome(result, round((clock.monotonic() - began) * 1000), remark)
