"""Runs a listener on one message for a console (CONSUME_MESSAGE_DIRECTLY 309), beside all others.

Nothing is committed or sent back for it; the verdict is all. Follows
ConsumeMessageConcurrentlyService.consumeMessageDirectly of RocketMQ 5.3.3.
"""

import asyncio
import inspect
import logging
from typing import Any

from cometmq.client.concurrent import Listener, is_async_listener, is_consumed
from cometmq.codec.bodies.running import DirectOutcome, DirectResult
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage

_log = logging.getLogger(__name__)


async def consume_directly(
    listener: Listener, message: StoredMessage, *, batch_count: int, clock: Clock
) -> DirectOutcome:
    """How the listener does with this message; its exceptions become words."""
    given: Any = message if batch_count <= 1 else [message]
    began = clock.monotonic()
    remark = None
    try:
        if is_async_listener(listener):
            said = listener(given)
            assert inspect.isawaitable(said)
            said = await said
        else:
            said = await asyncio.to_thread(listener, given)
        result = DirectResult.SUCCESS if is_consumed(said) else DirectResult.LATER
    except Exception as error:  # noqa: BLE001  A listener may raise anything; who asked is told.
        _log.info("the listener failed on %r, which a console gave it", message, exc_info=error)
        result = DirectResult.EXCEPTION
        remark = f"{type(error).__name__}: {error}"
    return DirectOutcome(result, round((clock.monotonic() - began) * 1000), remark)
