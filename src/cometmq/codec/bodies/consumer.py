"""The client ids of a consumer group: GetConsumerListByGroupResponseBody of RocketMQ 5.3.3."""

from collections.abc import Iterable

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Encode the JSON body of the answer to GET_CONSUMER_LIST_BY_GROUP 38."""
    return fastjson.dumps({"consumerIdList": list(client_ids)})


def decode_consumer_ids(content: bytes | str) -> tuple[str, ...]:
    """Decode the answer to GET_CONSUMER_LIST_BY_GROUP 38; empty without a list. Raises CodecError if it is malformed."""
    return load_object(content, "consumer ids").texts("consumerIdList")
