"""The asyncio admin client, whose properties are the subjects of a cluster: topics, groups, messages and more.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        await admin.topics.create("orders", queues=8)

`cometmq.Admin` is the same for threads. A subject is imported when it is first used, so that a command starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.settings import ClientSettings

if TYPE_CHECKING:
    from cometmq.client.admin.brokers import AsyncBrokerAdmin
    from cometmq.client.admin.dead_letters import AsyncDeadLetterAdmin
    from cometmq.client.admin.groups import AsyncGroupAdmin
    from cometmq.client.admin.health import AsyncHealthAdmin
    from cometmq.client.admin.messages import AsyncMessageAdmin
    from cometmq.client.admin.offsets import AsyncOffsetAdmin
    from cometmq.client.admin.topics import AsyncTopicAdmin
    from cometmq.client.admin.transactions import AsyncTransactionAdmin
    from cometmq.client.admin.users import AsyncUserAdmin


class AsyncAdmin(AsyncClient):
    """A client that administers a cluster; each property has the methods of one subject, such as `topics.create`.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times. With a namespace, names of topics and groups are without it, and lists have only its own and the
            system's. What `health` and `messages.explain` find has full names.
        instance: Shares the connections of another client, whose owner closes them.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        settings: ClientSettings | None = None,
        instance: ClientInstance | None = None,
    ) -> None:
        super().__init__(nameservers, settings, instance)

    @property
    def topics(self) -> AsyncTopicAdmin:
        """The methods that list, show, create, change and delete topics."""
        from cometmq.client.admin.topics import AsyncTopicAdmin

        return AsyncTopicAdmin(self)

    @property
    def groups(self) -> AsyncGroupAdmin:
        """The methods that list, show, create, change and delete consumer groups."""
        from cometmq.client.admin.groups import AsyncGroupAdmin

        return AsyncGroupAdmin(self)

    @property
    def offsets(self) -> AsyncOffsetAdmin:
        """The methods that show and move the committed offsets of consumer groups."""
        from cometmq.client.admin.offsets import AsyncOffsetAdmin

        return AsyncOffsetAdmin(self)

    @property
    def messages(self) -> AsyncMessageAdmin:
        """The methods that find, show, trace and resend stored messages."""
        from cometmq.client.admin.messages import AsyncMessageAdmin

        return AsyncMessageAdmin(self)

    @property
    def dead_letters(self) -> AsyncDeadLetterAdmin:
        """The methods that list, read, replay and delete dead letters of consumer groups."""
        from cometmq.client.admin.dead_letters import AsyncDeadLetterAdmin

        return AsyncDeadLetterAdmin(self)

    @property
    def transactions(self) -> AsyncTransactionAdmin:
        """The methods that list half messages that brokers discarded, and let them be checked again."""
        from cometmq.client.admin.transactions import AsyncTransactionAdmin

        return AsyncTransactionAdmin(self)

    @property
    def brokers(self) -> AsyncBrokerAdmin:
        """The methods that show and change brokers, and the key-value configuration of the nameservers."""
        from cometmq.client.admin.brokers import AsyncBrokerAdmin

        return AsyncBrokerAdmin(self)

    @property
    def health(self) -> AsyncHealthAdmin:
        """The method that checks the health of the cluster."""
        from cometmq.client.admin.health import AsyncHealthAdmin

        return AsyncHealthAdmin(self)

    @property
    def users(self) -> AsyncUserAdmin:
        """The methods that list, create, change and delete users of all brokers, and their policies."""
        from cometmq.client.admin.users import AsyncUserAdmin

        return AsyncUserAdmin(self)
