"""Traces: what became of a message, told to a topic by producer and consumer.

Start a broker first (`cometmq up`), then `python -m examples.watched [NAMESERVER]`.
"""

import sys
import threading

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.admin import decode_traces

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
TRACES = (
    "my-traces"  # Without it: RMQ_SYS_TRACE_TOPIC, where brokers have traceTopicEnable=true.
)


def main() -> None:
    """Send and consume one message, and read its traces."""
    producing = ProducerSettings(trace=True, trace_topic=TRACES)
    with Producer(NAMESERVER, settings=producing) as producer:
        sent = producer.send(Message("watched", b"hello"))
    consumed = threading.Event()

    def listen(_message: StoredMessage) -> None:
        consumed.set()

    consuming = PushConsumerSettings(
        trace=True, trace_topic=TRACES, consume_from=ConsumeFrom.FIRST
    )
    with PushConsumer(
        NAMESERVER,
        group="watched",
        listener=listen,
        subscriptions=["watched"],
        settings=consuming,
    ):
        consumed.wait(30)
    with PullConsumer(NAMESERVER, group="reads-traces") as reader:
        for queue in reader.queues(TRACES):
            for message in reader.fetch(queue, 0).messages:
                for trace in decode_traces(message.body):
                    is_ours = "ours" if trace.message_id == sent.message_id else "another"
                    print(f"{trace.kind} of {trace.group}: {is_ours}, {trace.outcome.name}")


if __name__ == "__main__":
    main()
