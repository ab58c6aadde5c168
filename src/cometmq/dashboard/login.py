"""Login of the dashboard's own users, and of the cluster's users if it has access control."""

import asyncio
import logging

from cometmq import AsyncAdmin, Credentials
from cometmq.dashboard.cluster_clients import ClusterClient, ClusterClients
from cometmq.dashboard.passwords import DashboardUser, Role, UserFile
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, NetError
from cometmq.model.text import printable

_log = logging.getLogger(__name__)

_CHECKS_AT_ONCE = 2
_NAME_MAX = 128
_PASSWORD_MAX = 256
# Credentials that no user has. None would sign with those of the environment, which could be valid.
_NOBODY = Credentials("-", "-")


class Authenticator:
    """Checks names and passwords of the dashboard's own users and those of the cluster."""

    def __init__(self, clients: ClusterClients, users: UserFile) -> None:
        self._clients = clients
        self._users = users
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    async def own_user(self, name: str, password: str) -> DashboardUser | None:
        """Return the dashboard's own user with this name and password, or None; hashes in a thread, two at a time.

        Raises SettingsError if the file of users cannot be read.
        """
        async with self._checks:
            return await asyncio.to_thread(self._users.check, name, password)

    async def cluster_user(self, name: str, password: str) -> tuple[Credentials, Role] | None:
        """Return the credentials and the role (reader) of a cluster user; None if refused or not checkable.

        A user without the right to read statistics is refused, too. Without access control a cluster accepts any
        signature, so first a request with unknown credentials must be refused.
        """
        if not 0 < len(name) <= _NAME_MAX or not 0 < len(password) <= _PASSWORD_MAX:
            return None
        credentials = Credentials(name, password)
        try:
            if not await self._is_refused(_NOBODY) or await self._is_refused(credentials):
                return None
        except CometError as error:
            _log.info("The cluster cannot authenticate user %.100s: %s", printable(name), error)
            return None
        return credentials, Role.READER

    async def is_gone(self, cluster: ClusterClient) -> bool:
        """Return whether the cluster refuses statistics to the user of `cluster`; False if that cannot be checked."""
        try:
            return await _refuses(cluster.admin)
        except CometError:
            return False

    async def _is_refused(self, credentials: Credentials) -> bool:
        """Return whether the cluster refuses statistics to credentials. Raises CometError if that cannot be checked."""
        cluster = self._clients.new(credentials)
        await cluster.start()
        try:
            return await _refuses(cluster.admin)
        finally:
            await cluster.close()


async def _refuses(admin: AsyncAdmin) -> bool:
    """Return whether the nameserver or the first broker that answers gives NO_PERMISSION; CometError if unknown."""
    try:
        for broker in await admin.brokers.list():
            try:
                await admin.brokers.runtime(broker.broker_name, broker.broker_id)
            except (NetError, BrokerNotFound):  # One that left may still be listed.
                continue
            return False
    except BrokerRefused as refused:
        if refused.code == ResponseCode.NO_PERMISSION:
            return True
        raise
    raise BrokerNotFound("no broker answers, so the users of the cluster cannot be checked")
