"""The nameservers a client may ask: one is kept while it answers, the next is taken when it does not.

They know nothing of each other and all brokers register with each of them, so any will do.
"""

import random
from collections.abc import Sequence

from cometmq.client.answer_bodies import OWN_SIZE_MAX, read_body
from cometmq.client.routes import check_route
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.nameserver import RouteRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, CodecError, NetError, TopicNotFound
from cometmq.model.route import TopicRoute
from cometmq.net.channels import Channels


class Nameservers:
    """Requests to whichever nameserver answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        channels: Channels,
        *,
        timeout_ms: int,
        chance: random.Random,
    ) -> None:
        """Begins with any of `addresses`, so that clients spread over them."""
        self.addresses = tuple(addresses)
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._chosen = chance.randrange(len(self.addresses))

    @property
    def current(self) -> str:
        """The address that is asked first."""
        return self.addresses[self._chosen]

    async def call(self, command: Command) -> Command:
        """Ask, going round until one answers; the answer may be a refusal.

        Raises:
            NetError: none answered; the last one's reason.
        """
        failure: NetError | None = None
        for _ in self.addresses:
            try:
                return await self._channels.call(
                    self.current, command, timeout_ms=self._timeout_ms
                )
            except NetError as error:
                failure = error
                self._turn_to_next()
        assert failure is not None, "there is always one address"
        if len(self.addresses) > 1:
            failure.add_note(f"asked all nameservers: {', '.join(self.addresses)}")
        raise failure

    def _turn_to_next(self) -> None:
        self._chosen = (self._chosen + 1) % len(self.addresses)

    async def ask(self, command: Command) -> Command:
        """`call`, with a refusal raised.

        Raises:
            NetError: none answered.
            BrokerRefused: the answer is an error.
        """
        answer = await self.call(command)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", self.current)
        return answer

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
            NetError, BrokerRefused, CodecError: as `ask`.
        """
        fields = encode_fields(RouteRequest(topic, accept_standard_json_only=True))
        answer = await self.call(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(
                f"the nameserver {self.current} has no route of the topic {topic!r}; create it "
                "(cometmq topic create), or send to it where brokers create topics themselves"
            )
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", self.current)
        try:
            what = f"the route of the topic {topic!r} of {self.current}"
            route = await read_body(
                decode_topic_route, answer.body, what, size_max=OWN_SIZE_MAX
            )
            check_route(topic, route)
        except CodecError:
            self._turn_to_next()  # Another one may know better.
            raise
        return route
