"""Settings that cannot work are refused where they are made; before, a client with them did nothing, in silence."""

import threading
from typing import Any

import pytest

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    SimpleConsumerSettings,
)
from cometmq.model.errors import SettingsError

TOPIC = "Wanted"


@pytest.mark.parametrize("settings", [{"concurrency": 0}, {"batch_count": -1}])
def test_a_push_consumer_that_would_get_nothing_is_refused(
    nameserver, broker, settings: dict[str, Any]
):
    """What was refused later says so; what was taken in silence and consumed nothing fails here."""
    name = next(iter(settings))
    with Producer(nameserver.address) as producer:
        producer.send(Message(TOPIC, b"a message"))
    got = threading.Event()

    def listen(_message: object) -> None:
        got.set()

    def consume(chosen: PushConsumerSettings) -> bool:
        consumer = PushConsumer(
            nameserver.address, group="wanting", listener=listen, settings=chosen
        )
        consumer.subscribe(TOPIC)
        with consumer:
            for wrong in (0, -1):
                with pytest.raises(SettingsError, match="concurrency"):
                    consumer.set_concurrency(wrong)
            return got.wait(10)

    with pytest.raises(
        SettingsError, match=f"PushConsumerSettings.{name} is (0|-1); it must be a whole"
    ):
        consume(PushConsumerSettings(consume_from=ConsumeFrom.FIRST, **settings))
    assert consume(PushConsumerSettings(consume_from=ConsumeFrom.FIRST))


@pytest.mark.parametrize(
    ("client", "kind", "settings"),
    [
        (Producer, ProducerSettings, {"in_flight_max": 0}),
        (Producer, ProducerSettings, {"send_timeout_ms": -1}),
        (PullConsumer, PullConsumerSettings, {"queue_count_max": 0}),
        (PullConsumer, PullConsumerSettings, {"rebalance_interval_ms": -5}),
        (SimpleConsumer, SimpleConsumerSettings, {"invisible_ms": 0}),
    ],
)
def test_every_kind_of_client_looks_at_its_settings(client: Any, kind: Any, settings: Any):
    with (
        pytest.raises(SettingsError, match=next(iter(settings))),
        client("127.0.0.1:1", group="wanting", settings=kind(**settings)),
    ):
        pass
