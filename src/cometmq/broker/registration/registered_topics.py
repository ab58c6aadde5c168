"""The topics as they are registered at nameservers, with the permissions that are currently possible.

As in RocketMQ, `brokerPermission` restricts them. If the store accepts no message until a restart (a failed flush, a
damaged log), write permission is withdrawn, too: producers use other brokers, and consumers can still read
(docs/design/0004). A full disk is temporary and changes nothing.
"""

import logging
from dataclasses import replace

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.model.clock import Clock
from cometmq.model.flags import PERM_READ_WRITE, PERM_WRITE
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)


class RegisteredTopics:
    """The topics as this broker registers them, with restricted permissions; topics.json is not changed by this."""

    def __init__(
        self, topics: Topics, store: MessageStore, clock: Clock, settings: BrokerSettings
    ) -> None:
        """`settings` has the broker's permission, which may change at run time."""
        self._topics = topics
        self._store = store
        self._clock = clock
        self._settings = settings
        self._perm = settings.perm
        self._changed_ms: int | None = None
        self._is_withdrawn = False

    def look(self) -> bool:
        """Return whether the permissions have changed since the last call, so that the broker must register again.

        Once the store needs a restart, no topic is writable any more.
        """
        if self._store.needs_restart and not self._is_withdrawn:
            self._is_withdrawn = True
            _log.error(
                "this broker registers as not writable, so producers send to other brokers: %s",
                self._store.refusal,
            )
        perm = self._settings.perm & ~(PERM_WRITE if self._is_withdrawn else 0)
        if perm == self._perm:
            return False
        self._perm = perm
        self._changed_ms = self._clock.now_ms()
        return True

    def table(self) -> TopicTable:
        """Return the topics with the permissions that the last `look` found; after a change, with a newer version."""
        table = self._topics.table()
        version = table.version
        if self._changed_ms is not None:
            # Nameservers only accept newer versions. This one is not saved: the next start has the old one.
            version = version.next(self._changed_ms)
        if self._perm & PERM_READ_WRITE == PERM_READ_WRITE:
            return TopicTable(version, table.topics)
        # Without PERM_INHERIT, too, as in BrokerController.registerBrokerAll.
        topics = {
            name: replace(config, perm=config.perm & self._perm)
            for name, config in table.topics.items()
        }
        return TopicTable(version, topics)
