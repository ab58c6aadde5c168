"""What attacks do again and again by hand: sends and pulls of a stranger."""

from tests.attacks.stranger import Answered, Stranger
from tests.support.frames import json_frame
from tests.support.load import send_frame
from tests.support.request_fields import pull_fields

PULL = 11
_SUBSCRIBED, _SUSPENDED = 4, 2


def send(
    stranger: Stranger,
    topic: str,
    queue_id: int = 0,
    body: bytes = b"x",
    properties: str = "",
    *,
    queues: int = 4,
) -> Answered:
    """One message; `queues` is how many a topic gets that it makes."""
    opaque = begin_send(stranger, topic, queue_id, body, properties, queues=queues)
    while not (answer := stranger.read()).is_answer or answer.opaque != opaque:
        pass
    return answer


def begin_send(
    stranger: Stranger,
    topic: str,
    queue_id: int = 0,
    body: bytes = b"x",
    properties: str = "",
    *,
    queues: int = 4,
) -> int:
    """Send one message and do not wait; the request's number."""
    stranger._opaque += 1
    opaque = stranger._opaque
    stranger.socket.sendall(
        send_frame(
            topic, body, opaque=opaque, queue_id=queue_id, properties=properties, queues=queues
        )
    )
    return opaque


def pull(
    stranger: Stranger, topic: str, queue_id: int, offset: int = 0, *, hold_ms: int = 0
) -> Answered:
    """Pull from an offset on, waiting for a message if that is asked for."""
    flags = _SUBSCRIBED | (_SUSPENDED if hold_ms else 0)
    fields = pull_fields(topic, queue_id, offset, sysFlag=flags, suspendTimeoutMillis=hold_ms)
    return stranger.ask(PULL, fields)


def begin_pull(stranger: Stranger, topic: str, queue_id: int, offset: int = 0) -> int:
    """Send a pull and do not wait; the request's number."""
    stranger._opaque += 1
    fields = pull_fields(topic, queue_id, offset)
    stranger.socket.sendall(json_frame(PULL, fields, opaque=stranger._opaque))
    return stranger._opaque


def pull_all(stranger: Stranger, topic: str, queue_id: int) -> bytes:
    """The records of a queue, from its first on."""
    found, offset = bytearray(), 0
    while (answer := pull(stranger, topic, queue_id, offset)).code == 0:
        found += answer.body
        offset = int(answer.fields["nextBeginOffset"])
    return bytes(found)
