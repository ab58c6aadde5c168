"""Removal of silent and disconnected brokers from the nameserver's route table."""

import logging

from cometmq.nameserver.routes import BrokerConnection, RouteTable

_log = logging.getLogger(__name__)


class Expiry:
    """Removes brokers from the route table that are silent for too long or whose connection was closed."""

    def __init__(self, table: RouteTable) -> None:
        self._table = table

    def scan(self) -> None:
        """Remove brokers that were silent for longer than their timeout, and close the connection of each."""
        for key in self._table.silent():
            live = self._table.live[key]
            _log.warning(
                "The broker at %s has sent no heartbeat for %d s and is removed",
                key,
                live.timeout,
            )
            self._table.drop(key)
            live.connection.close()

    def closed(self, connection: BrokerConnection) -> None:
        """Remove the brokers that last registered on a connection, because it was closed."""
        for key in self._table.of_connection(connection):
            _log.info("The broker at %s has closed its connection and is removed", key)
            self._table.drop(key)
