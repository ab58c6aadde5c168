"""The blocking `Admin`: made by tools/sync_facade.py from cometmq.client.admin.admin; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cometmq.client.admin.admin import AsyncAdmin
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient

if TYPE_CHECKING:
    from cometmq.client.sync.brokers import BrokerAdmin
    from cometmq.client.sync.dead_letters import DeadLetterAdmin
    from cometmq.client.sync.groups import GroupAdmin
    from cometmq.client.sync.health import HealthAdmin
    from cometmq.client.sync.messages import MessageAdmin
    from cometmq.client.sync.offsets import OffsetAdmin
    from cometmq.client.sync.topics import TopicAdmin
    from cometmq.client.sync.transactions import TransactionAdmin
    from cometmq.client.sync.users import UserAdmin


class Admin(BlockingClient[AsyncAdmin]):
    """A client that administers a cluster; each property has the methods of one subject, such as `topics.create`.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times. With a namespace, names of topics and groups are without it, and lists have only its own and the
            system's. What `health` and `messages.explain` find has full names.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        super().__init__(AsyncAdmin(nameservers, settings=settings))

    @property
    def topics(self) -> TopicAdmin:
        """The methods that list, show, create, change and delete topics."""
        from cometmq.client.sync.topics import TopicAdmin

        return TopicAdmin(self._portal, self._client.topics)

    @property
    def groups(self) -> GroupAdmin:
        """The methods that list, show, create, change and delete consumer groups."""
        from cometmq.client.sync.groups import GroupAdmin

        return GroupAdmin(self._portal, self._client.groups)

    @property
    def offsets(self) -> OffsetAdmin:
        """The methods that show and move the committed offsets of consumer groups."""
        from cometmq.client.sync.offsets import OffsetAdmin

        return OffsetAdmin(self._portal, self._client.offsets)

    @property
    def messages(self) -> MessageAdmin:
        """The methods that find, show, trace and resend stored messages."""
        from cometmq.client.sync.messages import MessageAdmin

        return MessageAdmin(self._portal, self._client.messages)

    @property
    def dead_letters(self) -> DeadLetterAdmin:
        """The methods that list, read, replay and delete dead letters of consumer groups."""
        from cometmq.client.sync.dead_letters import DeadLetterAdmin

        return DeadLetterAdmin(self._portal, self._client.dead_letters)

    @property
    def transactions(self) -> TransactionAdmin:
        """The methods that list half messages that brokers discarded, and let them be checked again."""
        from cometmq.client.sync.transactions import TransactionAdmin

        return TransactionAdmin(self._portal, self._client.transactions)

    @property
    def brokers(self) -> BrokerAdmin:
        """The methods that show and change brokers, and the key-value configuration of the nameservers."""
        from cometmq.client.sync.brokers import BrokerAdmin

        return BrokerAdmin(self._portal, self._client.brokers)

    @property
    def health(self) -> HealthAdmin:
        """The method that checks the health of the cluster."""
        from cometmq.client.sync.health import HealthAdmin

        return HealthAdmin(self._portal, self._client.health)

    @property
    def users(self) -> UserAdmin:
        """The methods that list, create, change and delete users of all brokers, and their policies."""
        from cometmq.client.sync.users import UserAdmin

        return UserAdmin(self._portal, self._client.users)
