"""Tables of texts by key: single ones on the wire, such as a namespace, and all namespaces in kvConfig.json.

Source: KVTable and KVConfigSerializeWrapper of RocketMQ 5.3.3.
"""

from collections.abc import Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    """Encode a table of texts as a JSON body, for example of the answer to GET_KVLIST_BY_NAMESPACE 219."""
    return fastjson.dumps({"table": dict(table)})


def decode_kv_table(content: bytes | str) -> dict[str, str]:
    """Decode a table encoded by `encode_kv_table`. Raises CodecError if it is malformed."""
    return load_object(content, "key-value table").text_table("table")


def encode_kv_file(namespaces: Mapping[str, Mapping[str, str]]) -> str:
    """Encode namespaces as the text of kvConfig.json, on one line as Java does."""
    tables = {name: dict(table) for name, table in namespaces.items()}
    return fastjson.dumps({"configTable": tables}).decode()


def decode_kv_file(content: bytes | str) -> dict[str, dict[str, str]]:
    """Decode the namespaces of kvConfig.json. Raises CodecError if the text is malformed."""
    return load_object(content, "kvConfig.json").table("configTable", JsonObject.text_table)
