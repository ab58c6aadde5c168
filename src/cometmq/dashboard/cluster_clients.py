"""The dashboard's clients of the cluster: a set for itself and, made on demand, one for each logged-in cluster user."""

import asyncio
from collections.abc import Callable
from typing import Self

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    ClientSettings,
    Credentials,
    Message,
    ProducerSettings,
    PullConsumerSettings,
    SendResult,
    TlsSettings,
)
from cometmq.connect import ClientInstance
from cometmq.model.names import TOOLS_GROUP

# Every broker has this group from its first start, because mqadmin pulls with it.
PULL_GROUP = TOOLS_GROUP
PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
BODY_SIZE_MAX = 16 << 20


class ClusterClient:
    """Admin, pull consumer and producer that share one client instance.

    The credentials sign its requests; with None, any credentials of the environment do. So it is with `tls`.
    """

    def __init__(
        self,
        nameservers: str | None,
        credentials: Credentials | None,
        tls: TlsSettings | None,
    ) -> None:
        settings = ClientSettings(credentials=credentials, tls=tls, connect_timeout_ms=2000)
        self.instance = ClientInstance(nameservers, settings)
        self.admin = AsyncAdmin(instance=self.instance)
        self.puller = AsyncPullConsumer(
            instance=self.instance,
            group=PULL_GROUP,
            settings=PullConsumerSettings(body_size_max=BODY_SIZE_MAX),
        )
        self._producer: AsyncProducer | None = None
        self._making = asyncio.Lock()

    async def start(self) -> None:
        """Start the clients, but for the producer."""
        for client in (self.admin, self.puller):
            await client.start()

    async def close(self) -> None:
        """Close the clients and their connections."""
        if self._producer is not None:
            await self._producer.close()
        for client in (self.puller, self.admin, self.instance):
            await client.close()

    async def send(self, message: Message) -> SendResult:
        """Send a message, creating the producer if there is none yet. Raises CometError if either fails."""
        async with self._making:
            if self._producer is None:
                settings = ProducerSettings(body_size_max=BODY_SIZE_MAX)
                producer = AsyncProducer(
                    instance=self.instance, group=PRODUCER_GROUP, settings=settings
                )
                await producer.start()
                self._producer = producer
        return await self._producer.send(message)


class ClusterClients:
    """The cluster clients of the dashboard itself and, made on demand, of cluster users.

    `credentials` sign the dashboard's own requests; with None, any credentials of the environment do. So it is with `tls`.
    """

    def __init__(
        self,
        nameservers: str | None,
        credentials: Credentials | None,
        tls: TlsSettings | None,
    ) -> None:
        self._nameservers = nameservers
        self._tls = tls
        self.own = self.new(credentials)
        self._of_users: dict[Credentials, ClusterClient] = {}

    async def __aenter__(self) -> Self:
        await self.own.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.keep_only(lambda _credentials: False)
        await self.own.close()

    def new(self, credentials: Credentials | None) -> ClusterClient:
        """Return clients that sign with the credentials, which the caller starts and closes."""
        return ClusterClient(self._nameservers, credentials, self._tls)

    async def of(self, credentials: Credentials | None) -> ClusterClient:
        """Return the clients that sign with the credentials, starting them if needed; for None, the dashboard's own."""
        if credentials is None:
            return self.own
        found = self._of_users.get(credentials)
        if found is None:
            found = self._of_users[credentials] = self.new(credentials)
            await found.start()
        return found

    async def keep_only(self, is_kept: Callable[[Credentials], bool]) -> None:
        """Close the clients of users for whose credentials `is_kept` returns False."""
        gone = [each for each in self._of_users if not is_kept(each)]
        for each in gone:
            await self._of_users.pop(each).close()
