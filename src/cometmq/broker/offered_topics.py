"""The topics as nameservers hear of them: with the permissions that this broker can keep.

`brokerPermission` cuts them, as in RocketMQ. Once the store takes no message until a restart (a failed
flush, a damaged log) writing goes as well: producers send to other brokers, and consumers
still read here what there is (docs/design/0018). A disk that is only full passes, and changes nothing.

Next: cometmq.broker.registrar
"""

import logging
from dataclasses import replace

from cometmq.broker.topics import Topics
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.model.clock import Clock
from cometmq.model.flags import PERM_READ_WRITE, PERM_WRITE
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)


class OfferedTopics:
    """What the registrar tells; never what topics.json keeps."""

    def __init__(self, topics: Topics, store: MessageStore, clock: Clock, *, perm: int) -> None:
        """`perm` is the broker's (brokerPermission)."""
        self._topics = topics
        self._store = store
        self._clock = clock
        self._perm = perm
        self._withdrawn_ms: int | None = None

    def look(self) -> bool:
        """Whether writing has to be withdrawn just now: nameservers are to be told."""
        if self._withdrawn_ms is not None or not self._store.needs_restart:
            return False
        self._withdrawn_ms = self._clock.now_ms()
        self._perm &= ~PERM_WRITE
        _log.error("producers are told to send to other brokers: %s", self._store.refusal)
        return True

    def table(self) -> TopicTable:
        """The topics and their version, one that no other permissions were ever told under."""
        table = self._topics.table()
        version = table.version
        if self._withdrawn_ms is not None:
            # Nameservers take what is new only. It is not kept: the next start has the old one.
            version = version.next(self._withdrawn_ms)
        if self._perm & PERM_READ_WRITE == PERM_READ_WRITE:
            return table
        # Without PERM_INHERIT, too, as BrokerController.registerBrokerAll does.
        topics = {
            name: replace(config, perm=config.perm & self._perm)
            for name, config in table.topics.items()
        }
        return TopicTable(version, topics)
