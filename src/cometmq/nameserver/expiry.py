"""Brokers that fall silent, and brokers whose connection closes, leave the route table."""

import logging

from cometmq.nameserver.routes import BrokerConnection, RouteTable

_log = logging.getLogger(__name__)


class Expiry:
    """Removes brokers that are gone."""

    def __init__(self, table: RouteTable) -> None:
        self._table = table

    def scan(self) -> None:
        """Remove brokers that were silent for longer than they may; close their connections."""
        for key in self._table.silent():
            live = self._table.live[key]
            _log.warning("%s was silent for more than %d s; removed", key, live.timeout)
            self._table.drop(key)
            live.connection.close()

    def closed(self, connection: BrokerConnection) -> None:
        """Remove the brokers that lived on a connection, at once."""
        for key in self._table.of_connection(connection):
            _log.info("%s closed its connection; removed", key)
            self._table.drop(key)
