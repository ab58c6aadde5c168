"""Scenes of the official Python client (rocketmq-python-client), each run as a process: `python grpc_scenes.py SCENE ADDRESS`.

A scene prints what happened as lines of JSON.
"""

import json
import sys
import threading
import time

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


def say(**values):
    print(json.dumps(values), flush=True)


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


def simple(config, group, topic, expression="*"):
    made = SimpleConsumer(config, group, await_duration=5)
    made.startup()
    made.subscribe(topic, FilterExpression(expression))
    return made


def received(consumer, count, seconds=40, invisible=15):
    """Receive until there are so many messages, or the time is over."""
    found: list[Message] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        found += consumer.receive(32, invisible)
    return found


def send_and_receive(config):
    sender = producer(config, "greetings")
    for number in range(3):
        made = message("greetings", f"hello {number}", tag="blue", keys="k1")
        made.add_property("colour", "green")
        receipt = sender.send(made)
        say(sent=receipt.message_id, offset=receipt.offset)
    consumer = simple(config, "readers", "greetings", "blue")
    for each in received(consumer, 3):
        say(
            body=each.body.decode(), tag=each.tag, keys=sorted(each.keys), id=each.message_id,
            properties=each.properties, attempt=each.delivery_attempt, corrupted=each.corrupted,
        )  # fmt: skip
        consumer.ack(each)
    say(again=[each.body.decode() for each in consumer.receive(32, 15)])
    consumer.shutdown()
    sender.shutdown()


def push(config):
    seen, all_seen = [], threading.Event()

    class Listener(MessageListener):  # type: ignore[misc]
        def consume(self, message):
            seen.append((message.body.decode(), message.delivery_attempt))
            if len(seen) >= 21:
                all_seen.set()
            is_first_failure = message.body == b"7" and message.delivery_attempt == 1
            return ConsumeResult.FAILURE if is_first_failure else ConsumeResult.SUCCESS

    consumer = PushConsumer(config, "pushers", Listener(), {"pushed": FilterExpression("*")})
    consumer.startup()
    sender = producer(config, "pushed")
    for number in range(20):
        sender.send(message("pushed", str(number)))
    all_seen.wait(60)
    time.sleep(1)
    say(seen=sorted(seen))
    consumer.shutdown()
    sender.shutdown()


def push_in_order(config):
    seen, all_seen = [], threading.Event()

    class Listener(MessageListener):  # type: ignore[misc]
        def consume(self, message):
            body = message.body.decode()
            is_failure = body == "a2" and ["a2", False] not in seen
            seen.append([body, not is_failure])
            if len(seen) == 11:
                all_seen.set()
            return ConsumeResult.FAILURE if is_failure else ConsumeResult.SUCCESS

    sender = producer(config, "marches")
    for number in range(5):
        for group in "ab":
            sender.send(message("marches", f"{group}{number}", message_group=group))
    consumer = PushConsumer(config, "marchers", Listener(), {"marches": FilterExpression("*")})
    consumer.startup()
    all_seen.wait(60)
    time.sleep(1)
    say(seen=seen)
    consumer.shutdown()
    sender.shutdown()


def push_over_a_kill(config):
    """Send and consume until 200 different messages were consumed; the server is killed meanwhile."""
    seen: set[str] = set()
    sent: set[str] = set()

    class Listener(MessageListener):  # type: ignore[misc]
        def consume(self, message):
            seen.add(message.body.decode())
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(config, "survivors", Listener(), {"pushed": FilterExpression("*")})
    consumer.startup()
    sender = producer(config, "pushed")
    end = time.monotonic() + 80
    number = 0
    while len(sent) < 200 and time.monotonic() < end:
        try:
            sender.send(message("pushed", f"k{number}"))
        except Exception:
            time.sleep(0.2)
            continue
        sent.add(f"k{number}")
        number += 1
        if number == 50:
            say(ready=True)
            time.sleep(1)
    while not sent <= seen and time.monotonic() < end:
        time.sleep(0.2)
    say(sent=len(sent), lost=sorted(sent - seen))
    consumer.shutdown()
    sender.shutdown()


def fifo(config):
    sender = producer(config, "steps")
    for number in range(6):
        sender.send(message("steps", str(number), message_group="one"))
    consumer = simple(config, "walkers", "steps")
    found: list[str] = []
    end = time.monotonic() + 40
    while len(found) < 6 and time.monotonic() < end:
        for each in consumer.receive(2, 15):
            found.append(each.body.decode())
            consumer.ack(each)
    say(bodies=found)
    consumer.shutdown()
    sender.shutdown()


def delay(config):
    sender = producer(config, "later")
    due = int(time.time()) + 3
    kept = sender.send(message("later", "kept", delivery_timestamp=due))
    recalled = sender.send(message("later", "recalled", delivery_timestamp=due))
    say(handle=bool(kept.recall_handle))
    say(recalled=sender.recall_message("later", recalled.recall_handle) == recalled.message_id)
    consumer = simple(config, "waiters", "later")
    for each in received(consumer, 1):
        say(body=each.body.decode(), early=time.time() < due)
        consumer.ack(each)
    say(again=[each.body.decode() for each in consumer.receive(32, 15)])
    consumer.shutdown()
    sender.shutdown()


def transactions(config):
    class Checker(TransactionChecker):  # type: ignore[misc]
        def check(self, message):
            say(asked=message.body.decode())
            return TransactionResolution.COMMIT

    sender = producer(config, "payments", checker=Checker())
    for body in ("committed", "rolled back", "orphaned"):
        transaction = sender.begin_transaction()
        sender.send(message("payments", body), transaction)
        if body == "committed":
            transaction.commit()
        elif body == "rolled back":
            transaction.rollback()
    consumer = simple(config, "payers", "payments")
    bodies: list[str] = []
    end = time.monotonic() + 50
    while len(bodies) < 2 and time.monotonic() < end:
        for each in consumer.receive(32, 15):
            bodies.append(each.body.decode())
            consumer.ack(each)
    say(bodies=bodies)
    consumer.shutdown()
    sender.shutdown()


def change(config):
    sender = producer(config, "changed")
    sender.send(message("changed", "once more"))
    consumer = simple(config, "changers", "changed")
    [first] = received(consumer, 1)
    old = first.receipt_handle
    consumer.change_invisible_duration(first, 1)
    say(changed=first.receipt_handle != old)
    [second] = received(consumer, 1)
    say(body=second.body.decode(), attempt=second.delivery_attempt)
    try:
        consumer.ack(first)
    except Exception as error:
        say(refused=type(error).__name__, code=getattr(error, "code", 0))
    consumer.ack(second)
    say(again=[each.body.decode() for each in consumer.receive(32, 15)])
    consumer.shutdown()
    sender.shutdown()


def wrong(config):
    try:
        producer(config, "missing").send(message("missing", "x"))
    except Exception as error:
        say(refused=str(error))


def main():
    name, address = sys.argv[1:]
    config = ClientConfiguration(address, Credentials(), request_timeout=10)
    globals()[name](config)


if __name__ == "__main__":
    main()
