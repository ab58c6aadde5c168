"""The membership of a producer in its group; passes brokers' requests to the handlers that other parts register."""

from collections.abc import Callable

from cometmq.codec.bodies.heartbeat import ProducerPart
from cometmq.codec.remoting import Command
from cometmq.net.channel import Channel

# Handles a request of a broker, or returns False if the request does not concern this part. May answer later.
Taker = Callable[[Command, Channel], bool]


class ProducerMember:
    """The membership of a producer in its group; `takers` has the handlers of brokers' requests by request code."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.takers: dict[int, Taker] = {}

    def heartbeat_part(self) -> ProducerPart:
        """Return the part of a heartbeat that announces this producer to brokers."""
        return ProducerPart(self.group)

    def topics(self) -> list[str]:
        """Return an empty list, because the routes in use are refreshed anyway."""
        return []

    def take_request(self, command: Command, channel: Channel) -> bool:
        """Pass a broker's request to the handler of its code; return False if there is none, or if it returns False."""
        taker = self.takers.get(command.code)
        return taker is not None and taker(command, channel)
