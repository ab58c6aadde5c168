"""Messages from columns, with both faces of the encoded producer."""

from typing import assert_type

from cometmq import MessageQueue, SendResult
from cometmq.connect import AsyncEncodedProducer, EncodedMessage, EncodedProducer
from cometmq.errors import CometError


def blocking(nameserver: str) -> None:
    """Send two messages in one call."""
    with EncodedProducer(nameserver, group="typed_imports") as producer:
        assert_type(producer.queues("typed"), list[MessageQueue])
        messages = [
            EncodedMessage("typed", b"1", f"UNIQ_KEY\x01{producer.next_id()}\x02"),
            EncodedMessage("typed", b"2", f"UNIQ_KEY\x01{producer.next_id()}\x02"),
        ]
        assert_type(producer.send_each(messages), list[SendResult | CometError])


async def with_asyncio(nameserver: str) -> None:
    """The same, awaited."""
    async with AsyncEncodedProducer(nameserver, group="typed_imports") as producer:
        message = EncodedMessage("typed", b"1", f"UNIQ_KEY\x01{producer.next_id()}\x02")
        outcomes = await producer.send_each([message])
        assert_type(outcomes, list[SendResult | CometError])
        assert isinstance(outcomes[0], SendResult)
