"""Refuses messages for kinds of queues that are read but not written: batch topics, light queues.

Both are read from a Java broker's store (docs/format/other-queues.md). A send that asks for one is
refused with its reason, for a message in no queue would be lost without a word.
"""

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.topic_policies import BATCH, QUEUE_TYPE, is_batch_topic
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError

MULTI_DISPATCH = "INNER_MULTI_DISPATCH"


class OtherQueues(Feature):
    """Refuses what would need a queue of another kind."""

    def __init__(self, parts: Parts) -> None:
        self._is_multi_dispatch = parts.settings.is_multi_dispatch
        parts.reroutes.append(self._refuse)

    def _refuse(self, sent: RoutedSend) -> RoutedSend:
        """A reroute that moves nothing.

        Raises:
            RequestError: the message is for a batch topic or a light queue.
        """
        if sent.topic.attributes and is_batch_topic(sent.topic.attributes):
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"topic[{sent.topic.name}] has {QUEUE_TYPE}={BATCH}; this broker reads such topics "
                "and does not write them: send to another topic, or take the attribute away",
            )
        if self._is_multi_dispatch and MULTI_DISPATCH in sent.properties:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"{MULTI_DISPATCH}={sent.properties[MULTI_DISPATCH]}: this broker reads light queues "
                "and does not write them; with enableMultiDispatch=false the property is ignored, "
                "as in RocketMQ",
            )
        return sent
