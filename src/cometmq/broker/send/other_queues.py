"""Refuses sends to queues that this broker only reads, if `Admission` checks them: batch topics and light queues.

Light queues are only refused with enableMultiDispatch. Both occur in stores that a Java broker wrote
(docs/format/other-queues.md). If such a send were stored, its message would be missing in them.
"""

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.topic_policies import BATCH, QUEUE_TYPE, is_batch_topic
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError

MULTI_DISPATCH = "INNER_MULTI_DISPATCH"


class OtherQueues(Feature):
    """A feature that refuses sends to batch topics and, with enableMultiDispatch, to light queues, if they pass through `Admission`."""

    def __init__(self, parts: Parts) -> None:
        self._is_multi_dispatch = parts.settings.is_multi_dispatch
        parts.reroutes.append(self._refuse)

    def _refuse(self, sent: RoutedSend) -> RoutedSend:
        """Raise RequestError for a send to a batch topic, or with enableMultiDispatch to a light queue.

        Other sends are returned unchanged.
        """
        if sent.topic.attributes and is_batch_topic(sent.topic.attributes):
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"topic[{sent.topic.name}] has {QUEUE_TYPE}={BATCH}; this broker can read such topics "
                "but not write to them; send to another topic, or remove the attribute",
            )
        if self._is_multi_dispatch and MULTI_DISPATCH in sent.properties:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"{MULTI_DISPATCH}={sent.properties[MULTI_DISPATCH]}: this broker can read light queues "
                "but not write to them; set enableMultiDispatch=false to ignore the property, as "
                "RocketMQ does",
            )
        return sent
