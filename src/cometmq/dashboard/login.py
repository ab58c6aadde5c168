"""Login: the dashboard's own users, and the cluster's where it asks for signatures."""

import asyncio
import logging

from cometmq.client import AsyncInspector, Credentials
from cometmq.dashboard.cluster_clients import ClusterClient
from cometmq.dashboard.passwords import DashboardUser, Role, UserFile
from cometmq.dashboard.settings import DashboardSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, NetError

_log = logging.getLogger(__name__)

_CHECKS_AT_ONCE = 2
_NAME_MAX = 128
_PASSWORD_MAX = 256
# What the environment says must not help to find out.
_NOBODY = Credentials("-", "-")


class Authenticator:
    """Checks names and passwords of those who log in.

    Args:
        settings: where the cluster is.
        users: of the dashboard's own.
    """

    def __init__(self, settings: DashboardSettings, users: UserFile) -> None:
        self._settings = settings
        self._users = users
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    async def own_user(self, name: str, password: str) -> DashboardUser | None:
        """The user of the dashboard's own with that password; the check takes some 50 ms of a thread.

        Raises:
            SettingsError: the file of users cannot be read.
        """
        async with self._checks:
            return await asyncio.to_thread(self._users.check, name, password)

    async def cluster_user(self, name: str, password: str) -> tuple[Credentials, Role] | None:
        """The credentials and role of a user of the cluster; None: no such user, or the cluster asks for none.

        A cluster without access control takes any signature: only one that refuses what nobody signed is asked.
        """
        if not 0 < len(name) <= _NAME_MAX or not 0 < len(password) <= _PASSWORD_MAX:
            return None
        credentials = Credentials(name, password)
        try:
            if not await self._is_refused(_NOBODY) or await self._is_refused(credentials):
                return None
        except CometError as error:
            _log.info("the cluster does not say who %.100r is: %s", name, error)
            return None
        return credentials, Role.READER

    async def is_gone(self, cluster: ClusterClient) -> bool:
        """Return whether the cluster refuses a user whom it knew; one that does not answer leaves him where he is."""
        try:
            return await _refuses(cluster.inspector)
        except CometError:
            return False

    async def _is_refused(self, credentials: Credentials) -> bool:
        """Whether a broker refuses to tell its numbers to who signs so.

        Raises:
            CometError: none says.
        """
        cluster = ClusterClient(self._settings.nameservers, credentials)
        await cluster.start()
        try:
            return await _refuses(cluster.inspector)
        finally:
            await cluster.close()


async def _refuses(inspector: AsyncInspector) -> bool:
    """Whether a nameserver or the first broker that answers refuses."""
    try:
        for broker in await inspector.brokers():
            try:
                await inspector.runtime(broker.broker_name, broker.broker_id)
            except NetError:
                continue
            return False
    except BrokerRefused as refused:
        if refused.code == ResponseCode.NO_PERMISSION:
            return True
        raise
    raise BrokerNotFound("no broker answers")
