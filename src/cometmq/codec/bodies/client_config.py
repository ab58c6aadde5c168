"""A subscription to be checked: the body of CHECK_CLIENT_CONFIG 46.

Source: CheckClientRequestBody and ClientManageProcessor.checkClientConfig of RocketMQ 5.3.3.
"""

from cometmq.codec.bodies.heartbeat import subscription_of
from cometmq.codec.bodies.json_object import load_request
from cometmq.model.subscription import Subscription


def decode_client_config(content: bytes) -> Subscription | None:
    """Return the subscription in a CHECK_CLIENT_CONFIG body, or None. Raises CodecError if it is malformed or too large."""
    if not content:
        return None
    body = load_request(content, "client configuration")
    return (
        subscription_of(body.member("subscriptionData")) if "subscriptionData" in body else None
    )


def client_config_group(content: bytes) -> str | None:
    """Return the consumer group in a CHECK_CLIENT_CONFIG body, or None. Raises CodecError if it is malformed or too large."""
    return (
        load_request(content, "client configuration").maybe_text("group") if content else None
    )
