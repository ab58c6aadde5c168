"""What a send passes before it goes out, where settings ask for more than to send it: watchers, batches.

Next: cometmq.client.gathering
"""

import asyncio
from collections.abc import Sequence

from cometmq.client.choose_queue import Pick
from cometmq.client.gathering import Gathering
from cometmq.client.hub import Hub
from cometmq.client.parcel import Packer
from cometmq.client.results import SendResult
from cometmq.client.send import Sender
from cometmq.client.settings import ClientSettings, ProducerSettings
from cometmq.client.tracing import Tracer
from cometmq.client.watch import SendEnded, Watch
from cometmq.model.message import Message


def make_watches(hub: Hub, group: str, settings: ClientSettings) -> list[Watch]:
    """Those whom the settings ask for.

    Raises:
        SettingsError: OpenTelemetry is wanted and not installed.
    """
    watches: list[Watch] = []
    if settings.is_trace_enabled:
        watches.append(Tracer(hub, group, settings.trace_topic))
    if settings.is_telemetry_enabled:
        from cometmq.client.telemetry import Telemetry

        watches.append(Telemetry(hub, group))
    return watches


class SendChain:
    """The way of one producer's sends.

    Args:
        packer: makes parcels.
        sender: sends them.
        watches: told of each send.
        gathering: makes batches; None: nobody does.
    """

    def __init__(
        self,
        packer: Packer,
        sender: Sender,
        watches: Sequence[Watch],
        gathering: Gathering | None,
    ) -> None:
        self._packer = packer
        self._sender = sender
        self._watches = watches
        self._gathering = gathering

    def send(
        self, message: Message, pick: Pick | None, timeout_ms: int | None
    ) -> asyncio.Future[SendResult]:
        """Send a message; raises and fails as `AsyncProducer.send`."""
        ends: list[SendEnded] = []
        for watch in self._watches:
            message, ended = watch.sending(message)
            ends.append(ended)
        gathering = self._gathering
        if gathering is not None and pick is None and gathering.takes(message):
            result = gathering.send(message, timeout_ms)
        else:
            result = self._sender.start(self._packer.pack(message), pick, timeout_ms)
        for ended in ends:
            result.add_done_callback(ended)
        return result

    async def close(self) -> None:
        """Send what waits."""
        if self._gathering is not None:
            await self._gathering.close()
        for watch in self._watches:
            await watch.close()


def make_chain(
    packer: Packer, sender: Sender, hub: Hub, group: str, settings: ProducerSettings
) -> SendChain | None:
    """The chain that the settings ask for; None: sends go straight out."""
    watches = make_watches(hub, group, settings)
    gathering = Gathering(packer, sender, settings) if settings.is_auto_batch else None
    if not watches and gathering is None:
        return None
    return SendChain(packer, sender, watches, gathering)
