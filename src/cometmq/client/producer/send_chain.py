"""Optional steps of a send, if the settings enable them: interceptors and automatic batching."""

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
    """Make the interceptors that the settings enable; raise SettingsError if OpenTelemetry is wanted but not installed."""
    interceptors: list[Interceptor] = []
    if settings.telemetry:
        from cometmq.client.tracing.telemetry import Telemetry

        interceptors.append(Telemetry(instance, group))
    if settings.trace:  # Made last because it starts a task, and Telemetry may raise.
        interceptors.insert(0, Tracer(instance, group, settings.trace_topic))
    return interceptors


class SendChain:
    """The optional steps of a producer's sends: `interceptors`, called for each, and batches of the `accumulator`."""

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
        """Send a message through the interceptors, in a batch if enabled and possible; return the future of its result.

        The errors are those of `AsyncProducer.send`, but MessageError may be raised by the call itself.
        """

        def start(messages: Messages) -> asyncio.Future[SendResult]:
            accumulator, [each] = self._accumulator, messages
            if accumulator is not None and pick is None and accumulator.takes(each):
                return accumulator.send(each, timeout_ms)
            return self._sender.start(self._encoder.pack(each), pick, timeout_ms)

        return watched(self.interceptors, [message], start)

    async def close(self) -> None:
        """Send incomplete batches, wait for all batches, and close the interceptors, which try to send remaining traces."""
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
    """Make the optional steps of sends (interceptors, batching) that the settings enable; None if there are none."""
    interceptors = make_interceptors(instance, group, settings)
    accumulator = Accumulator(encoder, sender, settings) if settings.auto_batch else None
    if not interceptors and accumulator is None:
        return None
    return SendChain(encoder, sender, interceptors, accumulator)
