"""Calls that brokers refuse, one or more of each client class, while the cluster fails in one of the ways that have a reason.

Each error is of CometMQ's types, and names the item that it is about.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cometmq import Credentials, Message, MessageQueue, StoredMessage
from cometmq.connect import EncodedMessage, LetterId, ReplayCandidate
from cometmq.errors import CometError

# The user of all clients of the table, whom a broker without access control does not look at.
WORKER = Credentials("the-worker", "the-secret-of-the-worker")
Clients = Mapping[str, Any]
# Each call with the words that its error has.
Calls = Iterable[tuple[str, str, Callable[[], Any]]]
_LETTER = ReplayCandidate(LetterId("broker-a", 0, 0, 0), "t", "1", "t@broker-a:0#0")


def denied(clients: Clients, topic: str, popped: StoredMessage) -> Calls:
    """Calls of clients whose user may do nothing any more."""
    user, queue = WORKER.access_key, MessageQueue(topic, "broker-a", 0)
    encoded = EncodedMessage(f"{topic}_sent", b"x", "UNIQ_KEY\x01refused\x02")
    admin, reader, puller = clients["Admin"], clients["QueueReader"], clients["PullConsumer"]
    return [
        ("Producer", user, lambda: clients["Producer"].send(Message(topic, b"x"))),
        ("Producer", user, lambda: clients["Producer"].send_batch([Message(topic, b"x")] * 2)),
        ("EncodedProducer", user, lambda: clients["EncodedProducer"].send_each([encoded])),
        ("PullConsumer", user, lambda: puller.commit(queue, 2)),
        ("PullConsumer", user, lambda: puller.fetch(queue, 0)),
        ("SimpleConsumer", user, lambda: clients["SimpleConsumer"].ack(popped)),
        ("SimpleConsumer", user, lambda: clients["SimpleConsumer"].receive(1)),
        ("Admin", user, lambda: admin.topics.offsets(topic)),
        ("Admin", user, lambda: admin.topics.delete(topic)),
        ("Admin", user, lambda: admin.brokers.settings("broker-a")),
        ("QueueReader", user, lambda: reader.max_offsets([queue])),
        ("QueueReader", user, lambda: reader.commit({queue: 2})),
        ("ReplayClaims", user, lambda: clients["ReplayClaims"].take("refused", [_LETTER])),
    ]


def absent(clients: Clients, topic: str, _popped: StoredMessage) -> Calls:
    """Calls about a topic that there is not, and of groups that were deleted."""
    gone, queue = f"{topic}_gone", MessageQueue(topic, "broker-a", 0)
    simple, pull = f"{topic}_simple", f"{topic}_pull"
    encoded = EncodedMessage(gone, b"x", "UNIQ_KEY\x01refused\x02")
    admin, reader, puller = clients["Admin"], clients["QueueReader"], clients["PullConsumer"]
    return [
        ("Producer", gone, lambda: clients["Producer"].send(Message(gone, b"x"))),
        ("Producer", gone, lambda: clients["Producer"].send_batch([Message(gone, b"x")] * 2)),
        ("EncodedProducer", gone, lambda: clients["EncodedProducer"].queues(gone)),
        ("EncodedProducer", gone, lambda: clients["EncodedProducer"].send_each([encoded])),
        ("PullConsumer", gone, lambda: puller.queues(gone)),
        ("PullConsumer", pull, lambda: puller.fetch(queue, 0)),
        ("PullConsumer", pull, lambda: puller.commit(queue, 2)),
        ("SimpleConsumer", simple, lambda: clients["SimpleConsumer"].receive(1)),
        ("Admin", gone, lambda: admin.topics.configs(gone)),
        ("Admin", gone, lambda: admin.topics.set(gone, {"write_queues": 2})),
        ("Admin", gone, lambda: admin.offsets.lag(gone)),
        ("Admin", gone, lambda: admin.topics.bounds(gone)),
        ("Admin", gone, lambda: admin.groups.show(gone)),
        ("QueueReader", gone, lambda: reader.queues([gone])),
        ("QueueReader", gone, lambda: reader.max_offsets([MessageQueue(gone, "broker-a", 0)])),
    ]


# By the first letter of the failure.
REFUSED: dict[str, Callable[[Clients, str, StoredMessage], Calls]] = {
    "d": denied,
    "a": absent,
}


def complain(call: str, words: str, outcome: object) -> None:
    """Print what is wrong with the outcome of a call that was to be refused, as a line of stdout."""
    # Some methods have an error in the place of each result.
    results = [*outcome.values()] if isinstance(outcome, dict) else outcome
    for each in results if isinstance(results, list) else [results]:
        if not isinstance(each, CometError) or words not in str(each):
            print(
                f"COMPLAINT: {call} gave {each!r}, and no error that names {words}", flush=True
            )


def ask(calls: Calls) -> None:
    """Make calls of blocking clients."""
    for name, words, call in calls:
        try:
            outcome = call()
        except Exception as error:
            outcome = error
        complain(name, words, outcome)


async def ask_on_a_loop(calls: Calls) -> None:
    """Make calls of asyncio clients."""
    for name, words, call in calls:
        try:
            outcome = await call()
        except Exception as error:
            outcome = error
        complain(name, words, outcome)
