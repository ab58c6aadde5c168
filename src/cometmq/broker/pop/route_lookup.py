"""Asks nameservers for the route of a topic: its queues on all brokers."""

import logging

from cometmq.broker.registration.nameserver_calls import NameserverCalls
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, NetError
from cometmq.model.queue import MessageQueue

_log = logging.getLogger(__name__)

ROUTE_TIMEOUT_MS = 3_000


class RouteLookup:
    """Asks one nameserver after the other, until one answers."""

    def __init__(self, settings: BrokerSettings, calls: NameserverCalls) -> None:
        self._settings = settings
        self._calls = calls

    async def read_queues(self, topic: str) -> list[MessageQueue] | None:
        """Give the queues to consume; None where no nameserver says anything."""
        code, fields = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}
        for address in self._settings.nameserver_addresses:
            try:
                answer = await self._calls.call(
                    address, code, fields, b"", timeout_ms=ROUTE_TIMEOUT_MS
                )
                if answer.code == ResponseCode.SUCCESS:
                    return decode_topic_route(answer.body).read_queues(topic)
            except (NetError, CodecError) as error:
                _log.warning("the route of %s from %s: %s", topic, address, error)
        return None
