"""A message's position as text, `broker:queue:offset`, for forms and for page parts that continue from there."""

import re

from cometmq import MessageQueue, StoredMessage
from cometmq.dashboard.inputs import WrongInput
from cometmq.model.text import in_quotes

_PLACE = re.compile(r"(?P<broker>[^:,]{1,255}):(?P<queue>[0-9]{1,6}):(?P<offset>[0-9]{1,18})")


def place_text(message: StoredMessage) -> str:
    """Return the position of a message in its topic as text."""
    return text_of_place(message.queue, message.queue_offset)


def text_of_place(queue: MessageQueue, offset: int) -> str:
    """Return a position in a topic as text, `broker:queue:offset`."""
    return f"{queue.broker_name}:{queue.queue_id}:{offset}"


def read_place(topic: str, text: str) -> tuple[MessageQueue, int]:
    """Parse a message's position in a topic to its queue and offset. Raises WrongInput if it is not a position."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise WrongInput(
            f"{in_quotes(text, 40)} is not the position of a message; load the page again."
        )
    queue = MessageQueue(topic, found["broker"], int(found["queue"]))
    return queue, int(found["offset"])
