"""A producer as its instance and the brokers see it: a name, and the requests of brokers that it answers.

The parts of a producer that answer requests (request-reply, transactions) say so in `takers`.
"""

from collections.abc import Callable

from cometmq.codec.bodies.heartbeat import ProducerPart
from cometmq.codec.remoting import Command
from cometmq.net.channel import Channel

# Whether the request was this part's business; it answers on the channel, now or later.
Taker = Callable[[Command, Channel], bool]


class ProducerMember:
    """A producer of a group.

    Attributes:
        group: its producer group.
        takers: who takes the requests of brokers, by code.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.takers: dict[int, Taker] = {}

    def heartbeat_part(self) -> ProducerPart:
        """The part of a heartbeat that announces this producer to brokers."""
        return ProducerPart(self.group)

    def topics(self) -> list[str]:
        """No topics: routes in use are refreshed anyway."""
        return []

    def take_request(self, command: Command, channel: Channel) -> bool:
        """Take a request of a broker; False where it was not for this producer."""
        taker = self.takers.get(command.code)
        return taker is not None and taker(command, channel)
