"""What a broker asks nameservers: calls to frames, over channels of ours.

Next: cometmq.broker.registrar
"""

from cometmq.codec.remoting import Command
from cometmq.net.channels import Channels


class NameserverChannels:
    """Calls nameservers (`nameserver_calls.NameserverCalls`)."""

    def __init__(self, channels: Channels) -> None:
        """The channels are closed by their owner."""
        self._channels = channels

    async def call(
        self, address: str, code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int
    ) -> Command:
        """Ask a nameserver, and wait for its answer, whatever its code.

        Raises:
            CometError: it cannot be reached, or does not answer.
        """
        command = Command(code, fields=fields, body=body)
        return await self._channels.call(address, command, timeout_ms=timeout_ms)

    def is_connected(self, address: str) -> bool:
        """Whether the connection to a nameserver still stands."""
        return self._channels.peek(address) is not None

    async def lost(self, address: str) -> None:
        """Wait until the connection to a nameserver stands no more."""
        channel = self._channels.peek(address)
        if channel is not None:
            await channel.wait_gone()
