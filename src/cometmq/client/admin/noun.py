"""The base of the subjects of an admin client, such as its topics: names, connections and requests that they share."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cometmq.client.admin.states import GroupState
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.argument_checks import explained
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.model.group import GroupConfig
from cometmq.model.names import TOOLS_GROUP
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from cometmq.model.topic import TopicConfig

if TYPE_CHECKING:
    from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer

Value = TypeVar("Value")
Config = TypeVar("Config", TopicConfig, GroupConfig)


class AsyncNoun:
    """A subject of an admin client; names are without the client's namespace.

    Args:
        admin: The client, whose connections and life cycle it has.
        namespace: Namespace of the names; None: that of the client.
    """

    _noun: ClassVar[str]

    def __init__(self, admin: AsyncClient, namespace: Namespace | None = None) -> None:
        self._admin = admin
        # It is a part of this client.
        self._namespace = admin._namespace if namespace is None else namespace  # noqa: SLF001

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        explained(cls)

    @property
    def class_name(self) -> str:
        """Name for errors, such as "Admin.topics"."""
        return f"{self._admin.class_name}.{self._noun}"

    @property
    def _live(self) -> ClientInstance:
        """The connections of the running client; raises ClientClosed if it is not running."""
        return self._admin._live  # noqa: SLF001  It is a part of this client.

    @property
    def _brokers(self) -> BrokerApi:
        return BrokerApi(self._live)

    @property
    def _offsets(self) -> OffsetApi:
        return OffsetApi(self._live)

    def _consumer(self) -> "AsyncPullConsumer":
        """Return a consumer that reads queues of full names without changing offsets."""
        from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
        from cometmq.client.consumer.settings import PullConsumerSettings

        live = self._live
        settings = PullConsumerSettings(request_timeout_ms=live.settings.request_timeout_ms)
        return AsyncPullConsumer(group=TOOLS_GROUP, settings=settings, instance=live)

    # --- names

    def _full(self, name: str) -> str:
        """Return the name of a topic or group as brokers know it."""
        return self._namespace.wrap(name)

    def _own(self, names: Iterable[str]) -> list[str]:
        """Return the names in the namespace, without its prefix, and those of the system; without a namespace, all."""
        short = ((self._namespace.unwrap(name), name) for name in names)
        return [own for own, name in short if self._namespace.wrap(own) == name]

    def _short_configs(self, configs: Mapping[str, Config | None]) -> dict[str, Config]:
        return {
            broker: replace(config, name=self._namespace.unwrap(config.name))
            for broker, config in configs.items()
            if config is not None
        }

    def _short_queues(self, found: Mapping[MessageQueue, Value]) -> dict[MessageQueue, Value]:
        return {self._namespace.unwrap_queue(queue): each for queue, each in found.items()}

    def _short_group(self, state: GroupState) -> GroupState:
        if self._namespace is NO_NAMESPACE:
            return state
        return replace(
            state,
            name=self._namespace.unwrap(state.name),
            configs=self._short_configs(state.configs),
            progress=self._short_queues(state.progress),
            subscriptions=self._short_subscriptions(state.subscriptions),
        )

    def _short_subscriptions(
        self, found: Mapping[str, Subscription]
    ) -> dict[str, Subscription]:
        short = self._namespace.unwrap
        return {
            short(topic): replace(each, topic=short(topic)) for topic, each in found.items()
        }

    # --- requests

    async def _each_master(
        self,
        ask: Callable[[str], Awaitable[Value]],
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, Value]:
        """Return the answer of each master by broker name: of `broker`, or of `cluster`, or of all; raise any error."""
        if broker is None:
            masters = await self._live.nameserver_api.masters(cluster)
        else:
            masters = {broker: await self._live.nameserver_api.member(broker)}
        return dict(
            zip(masters, all_of(await side_by_side(ask, masters.values())), strict=True)
        )
