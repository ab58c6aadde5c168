"""Key-value configuration: a namespace's table on the wire, and all of them in kvConfig.json.

Source: KVTable and KVConfigSerializeWrapper of RocketMQ 5.3.3.
"""

from collections.abc import Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    """The body of an answer to GET_KVLIST_BY_NAMESPACE 219, and of a registration's."""
    return fastjson.dumps({"table": dict(table)})


def decode_kv_table(content: bytes | str) -> dict[str, str]:
    """The table in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    return load_object(content, "key-value table").text_table("table")


def encode_kv_file(namespaces: Mapping[str, Mapping[str, str]]) -> str:
    """The text of kvConfig.json: one line, as Java writes this file."""
    tables = {name: dict(table) for name, table in namespaces.items()}
    return fastjson.dumps({"configTable": tables}).decode()


def decode_kv_file(content: bytes | str) -> dict[str, dict[str, str]]:
    """The namespaces in the text of kvConfig.json.

    Raises:
        CodecError: it is none; the message names the field.
    """
    return load_object(content, "kvConfig.json").table("configTable", JsonObject.text_table)
