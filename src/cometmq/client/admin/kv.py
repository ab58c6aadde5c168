"""Checks of values of the nameservers' key-value configuration."""

import re

from cometmq.model.errors import SettingsError
from cometmq.model.names import ORDER_NAMESPACE
from cometmq.model.text import in_quotes

_ORDER = re.compile(r"[^:;\s]+:[1-9][0-9]{0,4}(;[^:;\s]+:[1-9][0-9]{0,4})*")


def check_kv_value(namespace: str, key: str, value: str) -> None:
    """Check a value before it is set; clients of RocketMQ fail on an order configuration that they cannot parse.

    Raises:
        SettingsError: The namespace or the key is empty, or the value is no order configuration where it must be one.
    """
    for name, text in (("namespace", namespace), ("key", key)):
        if not text.strip():
            raise SettingsError(f"the {name} of a key-value configuration must not be empty")
    if namespace == ORDER_NAMESPACE and not _ORDER.fullmatch(value):
        raise SettingsError(
            f"{in_quotes(value)} is not an order configuration of topic {in_quotes(key)}; write the number of "
            "queues of each broker: 'broker-a:4;broker-b:4'"
        )
