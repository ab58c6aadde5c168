"""Direct consumption: runs a listener on one message for a console (CONSUME_MESSAGE_DIRECTLY 309).

Follows ConsumeMessageConcurrentlyService.consumeMessageDirectly of RocketMQ 5.3.3.
"""

import asyncio

from cometmq.client.consumer.listeners import ListenerCall
from cometmq.codec.bodies.running import DirectOutcome, DirectResult
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage


async def consume_directly(
    call: ListenerCall, message: StoredMessage, *, clock: Clock
) -> DirectOutcome:
    """Run the listener on one message, without committing; return the outcome, with an exception or fault as text."""
    began = clock.monotonic()
    if call.is_async:
        verdict = await call.run_on_loop([message])
    else:
        verdict = await asyncio.to_thread(call.run, [message])
    result = DirectResult.SUCCESS if verdict.is_consumed else DirectResult.LATER
    remark = None
    if error := verdict.error or verdict.fault:
        result = DirectResult.EXCEPTION
        remark = f"{type(error).__name__}: {error}"
    return DirectOutcome(result, round((clock.monotonic() - began) * 1000), remark)
