"""The table of requests: which handler answers which code, and which of them are administrative.

Administrative requests from beyond this machine are refused: there is no access control yet, and
RocketMQ's worst holes were exactly these (docs/compatibility.md).

Next: cometmq.broker.handlers.send
"""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass

from cometmq.broker.handlers.client import ClientHandler
from cometmq.broker.handlers.group import GroupHandler
from cometmq.broker.handlers.offset import OffsetHandler
from cometmq.broker.handlers.pull import PullHandler
from cometmq.broker.handlers.query import QueryHandler
from cometmq.broker.handlers.runtime import RuntimeHandler
from cometmq.broker.handlers.send import SendHandler
from cometmq.broker.handlers.topic import TopicHandler
from cometmq.broker.parts import Feature
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.dispatcher import Dispatcher, Handler
from cometmq.net.peer import Peer


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of a broker."""

    send: SendHandler
    pull: PullHandler
    offset: OffsetHandler
    client: ClientHandler
    topic: TopicHandler
    group: GroupHandler
    query: QueryHandler
    runtime: RuntimeHandler


def register_requests(
    dispatcher: Dispatcher, handlers: Handlers, features: Iterable[Feature]
) -> None:
    """Let the dispatcher know every request of this broker."""
    for feature in features:
        for number, handler in feature.of_clients.items():
            dispatcher.register(number, handler)
        for number, handler in feature.of_administrators.items():
            dispatcher.register(number, _guarded(handler))
        for number, batch in feature.of_batches.items():
            dispatcher.register_batch(number, batch)
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        dispatcher.register_batch(code, handlers.send)
    for code, handler in _of_clients(handlers).items():
        dispatcher.register(code, handler)
    for code, handler in _of_administrators(handlers).items():
        dispatcher.register(code, _guarded(handler))


def _of_clients(handlers: Handlers) -> dict[RequestCode, Handler]:
    pull, offset, client = handlers.pull, handlers.offset, handlers.client
    return {
        RequestCode.PULL_MESSAGE: pull.pull,
        RequestCode.LITE_PULL_MESSAGE: pull.lite_pull,
        RequestCode.QUERY_CONSUMER_OFFSET: offset.query,
        RequestCode.UPDATE_CONSUMER_OFFSET: offset.update,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offset.search,
        RequestCode.GET_MAX_OFFSET: offset.greatest,
        RequestCode.GET_MIN_OFFSET: offset.least,
        RequestCode.GET_EARLIEST_MSG_STORETIME: offset.earliest_time,
        RequestCode.QUERY_MESSAGE: handlers.query.query,
        RequestCode.VIEW_MESSAGE_BY_ID: handlers.query.view,
        RequestCode.HEART_BEAT: client.heartbeat,
        RequestCode.UNREGISTER_CLIENT: client.unregister,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: client.consumer_ids,
        RequestCode.LOCK_BATCH_MQ: client.lock,
        RequestCode.UNLOCK_BATCH_MQ: client.unlock,
    }


def _of_administrators(handlers: Handlers) -> dict[RequestCode, Handler]:
    topic, group, client = handlers.topic, handlers.group, handlers.client
    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: topic.create,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: topic.create_many,
        RequestCode.DELETE_TOPIC_IN_BROKER: topic.delete,
        RequestCode.GET_ALL_TOPIC_CONFIG: topic.all,
        RequestCode.GET_TOPIC_CONFIG: topic.get,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topic.system,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: group.create,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: group.create_many,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: group.delete,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: group.all,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group.get,
        RequestCode.GET_ALL_CONSUMER_OFFSET: handlers.offset.all,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: client.consumer_connections,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: client.producer_connections,
        RequestCode.GET_ALL_PRODUCER_INFO: client.all_producers,
        RequestCode.GET_BROKER_RUNTIME_INFO: handlers.runtime.runtime,
    }


def _guarded(handler: Handler) -> Handler:
    def guard(command: Command, peer: Peer) -> Awaitable[Answer | None] | Answer | None:
        if not peer.is_on_own_machine:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{request_name(command.code)} is taken from this machine only, until access "
                "control is configured",
            )
        return handler(command, peer)

    return guard
