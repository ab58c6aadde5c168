"""The chain of steps that a send passes where settings ask for them: interceptors, batches."""

import asyncio
from collections.abc import Sequence

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.producer.accumulator import Accumulator
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.queue_selector import Pick
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult
from cometmq.client.settings import ClientSettings, ProducerSettings
from cometmq.client.tracing.interceptors import Interceptor, Messages, watched
from cometmq.client.tracing.tracer import Tracer
from cometmq.model.message import Message


def make_interceptors(
    instance: ClientInstance, group: str, settings: ClientSettings
) -> list[Interceptor]:
    """The interceptors that the settings ask for.

    Raises:
        SettingsError: OpenTelemetry is wanted and not installed.
    """
    interceptors: list[Interceptor] = []
    if settings.telemetry:
        from cometmq.client.tracing.telemetry import Telemetry

        interceptors.append(Telemetry(instance, group))
    if settings.trace:  # Made last, for it starts a task, and the other may refuse.
        interceptors.insert(0, Tracer(instance, group, settings.trace_topic))
    return interceptors


class SendChain:
    """The chain of one producer's sends.

    Attributes:
        interceptors: told of each send and of ends of transactions.

    Args:
        encoder: encodes messages.
        sender: sends them.
        interceptors: told of each send.
        accumulator: makes batches; None: nobody does.
    """

    def __init__(
        self,
        encoder: SendEncoder,
        sender: EncodedSender,
        interceptors: Sequence[Interceptor],
        accumulator: Accumulator | None,
    ) -> None:
        self._encoder = encoder
        self._sender = sender
        self.interceptors = interceptors
        self._accumulator = accumulator

    def send(
        self, message: Message, pick: Pick | None, timeout_ms: int | None
    ) -> asyncio.Future[SendResult]:
        """Send a message; raises and fails as `AsyncProducer.send`."""

        def start(messages: Messages) -> asyncio.Future[SendResult]:
            accumulator, [each] = self._accumulator, messages
            if accumulator is not None and pick is None and accumulator.takes(each):
                return accumulator.send(each, timeout_ms)
            return self._sender.start(self._encoder.pack(each), pick, timeout_ms)

        return watched(self.interceptors, [message], start)

    async def close(self) -> None:
        """Send what waits."""
        if self._accumulator is not None:
            await self._accumulator.close()
        for interceptor in self.interceptors:
            await interceptor.close()


def make_chain(
    encoder: SendEncoder,
    sender: EncodedSender,
    instance: ClientInstance,
    group: str,
    settings: ProducerSettings,
) -> SendChain | None:
    """Make the chain that the settings ask for; None: sends go straight out."""
    interceptors = make_interceptors(instance, group, settings)
    accumulator = Accumulator(encoder, sender, settings) if settings.auto_batch else None
    if not interceptors and accumulator is None:
        return None
    return SendChain(encoder, sender, interceptors, accumulator)
