"""The columns of a message: their names, kinds and order.

Names are those of the community's Scala connector where it has the column, so its queries can be ported. Arrow's types are
in `columns.schema`, Spark's in `spark.schema`. This module imports neither: Spark starts several new processes per query,
and the first one needs only the names and Spark's types.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

from cometmq.model.text import in_quotes

PropertiesFormat = Literal["map", "raw", "json"]
Kind = Literal["text", "int", "long", "bytes", "time", "map"]

RAW_RECORD = "rawRecord"

KINDS: dict[str, Kind] = {
    "topic": "text",
    "brokerName": "text",
    "queueId": "int",
    "queueOffset": "long",
    "msgId": "text",
    "offsetMsgId": "text",
    "keys": "text",
    "tags": "text",
    "body": "bytes",
    "properties": "map",
    "bornTimestamp": "time",
    "bornHost": "text",
    "storeTimestamp": "time",
    "storeHost": "text",
    "flag": "int",
    "sysFlag": "int",
    "bodyCrc": "int",
    "storeSize": "int",
    "reconsumeTimes": "int",
    "commitLogOffset": "long",
    "preparedTransactionOffset": "long",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or `; known names are ...` if none is close."""
    lowered = {word.lower(): word for word in known}
    close = get_close_matches(name.strip().lower(), list(lowered), n=1)
    if close:
        return f"; did you mean {in_quotes(lowered[close[0]])}?"
    return f"; known names are {', '.join(lowered.values())}"
