"""Scenes of the official Python client (rocketmq-python-client): `python grpc_scenes.py ADDRESS PREFIX SCENE...`.

All run at once; each has the topic and the group PREFIX_SCENE. A line for each: "ok SCENE" or "not ok SCENE reason".
"""

import sys
import threading
import time
from collections.abc import Callable

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

PATIENT = 40
HIDDEN = 60


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def message(topic, body, **more):
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def producer(config, *topics, checker=None):
    made = Producer(config, topics, checker)
    made.startup()
    return made


def simple(config, topic, expression="*"):
    made = SimpleConsumer(config, topic, await_duration=5)
    made.startup()
    made.subscribe(topic, FilterExpression(expression))
    return made


def receive(consumer, count=32, hidden=HIDDEN):
    """What there is now; RocketMQ's proxy fails (50001) until it has read the settings that the client has just sent."""
    end = time.monotonic() + PATIENT
    while True:
        try:
            return consumer.receive(count, hidden)
        except Exception as error:
            if getattr(error, "code", 0) != 50001 or time.monotonic() > end:
                raise
            time.sleep(0.5)


def received(consumer, count, at_a_time=32):
    """Receive and acknowledge until there are so many bodies, or the time is over; a message may come twice."""
    found: dict[str, Message] = {}
    end = time.monotonic() + PATIENT
    while len(found) < count and time.monotonic() < end:
        for each in receive(consumer, at_a_time):
            consumer.ack(each)
            found.setdefault(each.body.decode(), each)
    return found


class Box(MessageListener):  # type: ignore[misc]
    """What a push consumer was given, as body and attempt; `fails` says what it refuses."""

    def __init__(self, fails: Callable[[str, list[str]], bool] = lambda _given, _seen: False):
        self.seen: list[str] = []
        self._fails = fails

    def consume(self, message):
        given = f"{message.body.decode()} {message.delivery_attempt}"
        self.seen.append(given)
        return ConsumeResult.FAILURE if self._fails(given, self.seen) else ConsumeResult.SUCCESS

    def wait(self, count):
        end = time.monotonic() + PATIENT
        while len(self.seen) < count and time.monotonic() < end:
            time.sleep(0.05)
        return self.seen


def pushed(config, topic, box):
    made = PushConsumer(config, topic, box, {topic: FilterExpression("*")})
    made.startup()
    return made


def normal(config, topic):
    sender, sent = producer(config, topic), {}
    for number in range(3):
        made = message(topic, f"hello {number}", tag="blue", keys="k1")
        made.add_property("colour", "grün")
        sent[f"hello {number}"] = sender.send(made).message_id
    consumer = simple(config, topic, "blue")
    found = received(consumer, 3)
    equal({body: each.message_id for body, each in found.items()}, sent)
    for each in found.values():
        equal((each.tag, sorted(each.keys), each.delivery_attempt), ("blue", ["k1"], 1))
        equal((each.properties, each.corrupted), ({"colour": "grün"}, False))
    equal(receive(consumer), [])


def fifo(config, topic):
    sender = producer(config, topic)
    for number in range(6):
        sender.send(message(topic, str(number), message_group="one"))
    equal(list(received(simple(config, topic), 6, at_a_time=2)), list("012345"))


def delay(config, topic):
    sender, due = producer(config, topic), int(time.time()) + 3
    sender.send(message(topic, "later", delivery_timestamp=due))
    equal(list(received(simple(config, topic), 1)), ["later"])
    equal(time.time() > due - 1, True)  # RocketMQ delivers up to a second early.


def recall(config, topic):
    sender, due = producer(config, topic), int(time.time()) + 8
    recalled = sender.send(message(topic, "recalled", delivery_timestamp=due))
    sender.send(message(topic, "kept", delivery_timestamp=due))
    equal(sender.recall_message(topic, recalled.recall_handle), recalled.message_id)
    consumer = simple(config, topic)
    equal(list(received(consumer, 1)), ["kept"])
    equal(receive(consumer), [])


def transaction(config, topic):
    asked = []

    class Checker(TransactionChecker):  # type: ignore[misc]
        def check(self, message):
            asked.append(message.body.decode())
            # A server asks early where a machine is slow.
            is_over = message.body == b"rolled back"
            return TransactionResolution.ROLLBACK if is_over else TransactionResolution.COMMIT

    sender = producer(config, topic, checker=Checker())
    for body in ("committed", "rolled back", "orphaned"):
        begun = sender.begin_transaction()
        sender.send(message(topic, body), begun)
        if body == "committed":
            begun.commit()
        elif body == "rolled back":
            begun.rollback()
    equal(sorted(received(simple(config, topic), 2)), ["committed", "orphaned"])
    equal("orphaned" in asked, True)


def change(config, topic):
    producer(config, topic).send(message(topic, "once more"))
    consumer = simple(config, topic)
    found: list[Message] = []
    while not found:
        found = receive(consumer, 1, 30)
    old = found[0].receipt_handle
    consumer.change_invisible_duration(found[0], 1)
    equal(found[0].receipt_handle != old, True)
    again = received(consumer, 1)
    equal([(body, each.delivery_attempt) for body, each in again.items()], [("once more", 2)])


def void(config, topic):
    """A handle of before a change that is over is void at ours; RocketMQ's proxy goes by the time in the handle."""
    producer(config, topic).send(message(topic, "once more"))
    consumer = simple(config, topic)
    found: list[Message] = []
    while not found:  # Through a proxy, a receive may ask the other broker.
        found = receive(consumer, 1, 30)
    [first] = found
    consumer.change_invisible_duration(first, 1)
    equal(list(received(consumer, 1)), ["once more"])
    try:
        consumer.ack(first)
    except Exception as error:
        equal(getattr(error, "code", 0), 40013)
    else:
        raise AssertionError("a void handle was acknowledged")


def push(config, topic):
    sender, box = producer(config, topic), Box(lambda given, _: given == "07 1")
    pushed(config, topic, box)
    for number in range(20):
        sender.send(message(topic, f"{number:02}"))
    equal(sorted(box.wait(21)), sorted([*(f"{each:02} 1" for each in range(20)), "07 2"]))


def push_in_order(config, topic):
    """A message that failed is tried again before the next of its message group."""
    sender = producer(config, topic)
    for number in range(5):
        for group in "ab":
            sender.send(message(topic, f"{group}{number}", message_group=group))
    box = Box(lambda given, seen: given.startswith("a2") and sum(each.startswith("a2") for each in seen) == 1)  # fmt: skip
    pushed(config, topic, box)
    bodies = [each.partition(" ")[0] for each in box.wait(11)]
    equal([each for each in bodies if each[0] == "a"], ["a0", "a1", "a2", "a2", "a3", "a4"])
    equal([each for each in bodies if each[0] == "b"], [f"b{each}" for each in range(5)])


def dead(config, topic):
    """Fails each time; its group tries twice. A dead letter is made when the message would have come a third time."""
    producer(config, topic).send(message(topic, "poison"))
    box = Box(lambda _given, _seen: True)
    pushed(config, topic, box)
    box.wait(2)
    time.sleep(4)
    equal(box.seen, ["poison 1", "poison 2"])


def missing(config, topic):
    """Its topic does not exist."""
    try:
        producer(config, topic).send(message(topic, "x"))
    except Exception as error:
        equal(topic in str(error), True)
    else:
        raise AssertionError("sent to a topic that does not exist")


def over_a_kill(config, topic):
    """Send and consume until 200 different messages were consumed; the broker is killed when it has said `ready`."""
    box, sender = Box(), producer(config, topic)
    pushed(config, topic, box)
    sent: set[str] = set()
    end = time.monotonic() + 80
    while len(sent) < 200 and time.monotonic() < end:
        body = f"k{len(sent)}"
        try:
            sender.send(message(topic, body))
        except Exception:
            time.sleep(0.2)
            continue
        sent.add(body)
        if len(sent) == 50:
            print("ready", flush=True)
            time.sleep(1)
    while (lost := sent - {each.partition(" ")[0] for each in box.seen}) and (
        time.monotonic() < end
    ):
        time.sleep(0.2)
    equal((len(sent), lost), (200, set()))


def play(name, config, topic):
    try:
        globals()[name](config, topic)
    except Exception as error:
        print(f"not ok {name}", str(error).replace("\n", " "), flush=True)
    else:
        print(f"ok {name}", flush=True)


def main():
    address, prefix, *names = sys.argv[1:]
    config = ClientConfiguration(address, Credentials(), request_timeout=20)
    threads = [
        threading.Thread(target=play, args=(name, config, f"{prefix}_{name}")) for name in names
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


if __name__ == "__main__":
    main()
