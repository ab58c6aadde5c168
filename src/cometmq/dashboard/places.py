"""A message's place as one text, `broker:queue:offset`, for forms and for parts that go on from there."""

import re

from cometmq.client import MessageQueue, StoredMessage
from cometmq.dashboard.inputs import WrongInput

_PLACE = re.compile(r"(?P<broker>[^:,]{1,255}):(?P<queue>[0-9]{1,6}):(?P<offset>[0-9]{1,18})")


def place_text(message: StoredMessage) -> str:
    """The place of a message in its topic, as text."""
    return text_of_place(message.queue, message.queue_offset)


def text_of_place(queue: MessageQueue, offset: int) -> str:
    """A place in a topic."""
    return f"{queue.broker_name}:{queue.queue_id}:{offset}"


def read_place(topic: str, text: str) -> tuple[MessageQueue, int]:
    """Read the place of a message in its topic from text.

    Raises:
        WrongInput: it is none.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        raise WrongInput(f"{text[:40]!r} is no place of a message; load the page again.")
    queue = MessageQueue(topic, found["broker"], int(found["queue"]))
    return queue, int(found["offset"])
