"""Redelivery: sends a message that could not be consumed back to a broker, which usually delivers it again later.

The client asks the broker to put it into the group's retry topic or the dead letters (CONSUMER_SEND_MSG_BACK). If that
fails, the client sends it to the retry topic as a new message, unless it is to become a dead letter or the broker does
not support the request. If nothing succeeds, the consumer may call the listener again.
Follows DefaultMQPushConsumerImpl.sendMessageBack of 5.3.3.
"""

import logging

from cometmq.client.api.consuming import ConsumeApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.settings import ProducerSettings
from cometmq.codec.headers.send import SendBackRequest
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.delay_levels import BROKERS_CHOICE, DEAD_LETTER, FIRST_RETRY_LEVEL
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.message import Message, StoredMessage, message_name
from cometmq.model.names import INNER_PRODUCER_GROUP, retry_topic

_log = logging.getLogger(__name__)

_RETRYING = "sending messages for a retry of the group"

# Used by consumeMessageBack if maxReconsumeTimes is unset (getMaxReconsumeTimes of 5.3.3).
RETRIES_DEFAULT = 16


class SendBack:
    """Sends back messages of one group for redelivery; brokers make them dead letters after `retries_max` (-1: 16) retries."""

    def __init__(self, instance: ClientInstance, group: str, retries_max: int) -> None:
        self._instance = instance
        self._api = ConsumeApi(instance)
        self._group = group
        self._retries_max = RETRIES_DEFAULT if retries_max < 0 else retries_max
        settings = ProducerSettings()
        ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        self._encoder = SendEncoder(INNER_PRODUCER_GROUP, settings, instance.clock, ids)
        self._sender = EncodedSender(instance, settings)

    async def give_back(
        self, message: StoredMessage, delay_level: int = BROKERS_CHOICE
    ) -> bool:
        """Send a message back to its broker for redelivery or, at level -1, as a dead letter; return whether one confirmed.

        If that fails, a message for redelivery is sent to the retry topic as a new one, unless the broker lacks the request;
        a confirmation of that counts, too.
        """
        try:
            await self.tell(
                message.queue.broker_name, message.commitlog_offset, delay_level, message
            )
        except CometError as error:
            if delay_level == DEAD_LETTER:
                _log.warning("%s cannot become a dead letter: %s", message_name(message), error)
                return False
            if (
                isinstance(error, BrokerRefused)
                and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            ):
                _log.warning(
                    "The broker cannot store a retry (%s); the message is retried in this client",
                    error,
                )
                return False
            return await self.send_anew(message, error)
        return True

    async def tell(
        self,
        broker_name: str,
        commitlog_offset: int,
        delay_level: int,
        message: StoredMessage | None = None,
    ) -> None:
        """Ask a broker to put the message at a commitlog offset into the group's retry topic or its dead letters.

        Raises BrokerRefused, BrokerNotFound, NetError, CodecError or ClientClosed if the broker did not confirm this.
        """
        header = SendBackRequest(
            commitlog_offset,
            self._group,
            delay_level,
            origin_msg_id=message.offset_message_id if message else None,
            origin_topic=message.topic if message else None,
            unit_mode=False,
            max_reconsume_times=self._retries_max,
        )
        await self._api.send_back(self._instance.address(broker_name), header)

    async def send_anew(
        self, message: StoredMessage, reason: object = "its last attempt failed"
    ) -> bool:
        """Send a message to the retry topic as a new one, which a broker may make a dead letter; return whether one confirmed."""
        _log.info(
            "The broker did not accept %s for a retry (%s); it is sent to the retry topic",
            message_name(message),
            reason,
        )
        properties = message.properties
        first_id = properties.get(keys_of.ORIGIN_MESSAGE_ID) or message.offset_message_id
        level = FIRST_RETRY_LEVEL + message.reconsume_times
        fresh = Message(retry_topic(self._group), message.body, flag=message.flag)
        kept = {name: value for name, value in properties.items() if name not in _NOT_KEPT}
        extra = {
            **kept,
            keys_of.RETRY_TOPIC: message.topic,
            keys_of.ORIGIN_MESSAGE_ID: first_id,
            keys_of.DELAY: str(level),
        }
        try:
            times = f',"j":"{message.reconsume_times + 1}","l":"{self._retries_max}"'
            encoded = self._encoder.pack(fresh, extra, more=times)
            await self._sender.start(encoded, None, None)
        except CometError as error:
            self._instance.outages.failed(_RETRYING, self._group, error, self._group)
            return False
        self._instance.outages.worked(_RETRYING, self._group)
        return True


_NOT_KEPT = frozenset(
    (keys_of.DELAY, keys_of.TRAN_MSG, keys_of.WAIT, keys_of.REAL_TOPIC, keys_of.REAL_QID)
)
