"""What a gRPC server says to a call, as plain values without what differs from run to run."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tests.support.grpc_raw import RawGrpc

# An answer has them in any case; what they are depends on time, place and turn.
_VARYING = {
    "message_id", "recall_handle", "receipt_handle", "born_timestamp", "store_timestamp", "delivery_timestamp", "store_host", "born_host",
    "endpoints",
}  # fmt: skip
# Not compared: they depend on the turn and may be 0, are what only we tell (how long a message is hidden), or what only Java
# tells (a transaction's id for a message of none).
_LEFT_OUT = {"offset", "queue_offset", "queue_id", "invisible_duration", "transaction_id"}
_IN_TEXTS = re.compile(r"\bid-\d+|(?<=properties length )\d+")
# Java's proxy tells the class of an error that another thread has raised.
_CLASS = "org.apache.rocketmq.proxy.common.ProxyException: "
Said = list[Any]


def said_of(work: Callable[[], Any]) -> Any:
    """What an answer says, or how the call failed."""
    try:
        return _plain_message(work())
    except grpc.RpcError as error:
        return _failure(error)


def _failure(error: grpc.RpcError) -> dict[str, str]:
    """The status of a call; the text of UNIMPLEMENTED is that of a gRPC library."""
    name = error.code().name
    return {"grpc": name, "text": "" if name == "UNIMPLEMENTED" else error.details()}


def _plain_message(message: Message) -> Any:
    return _plain(MessageToDict(message, preserving_proto_field_name=True))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get("code") == "OK":  # Its text tells nothing.
            return {"code": "OK"}
        return {
            key: "…" if key in _VARYING else _plain(each)
            for key, each in value.items()
            if key not in _LEFT_OUT
        }
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _IN_TEXTS.sub("…", value.removeprefix(_CLASS)) if isinstance(value, str) else value


def said_to(request: Any, client: RawGrpc, _topic: str = "") -> Said:
    """What a call with one answer says."""
    return [said_of(lambda: client.call(request))]


def parts_of(client: RawGrpc, request: Any, timeout: float | None = 30) -> Said:
    """All that a call of several answers says."""
    found: Said = []
    try:
        for part in client.stream(request, timeout=timeout):
            found.append(_plain_message(part))
    except grpc.RpcError as error:
        found.append(_failure(error))
    # Java's proxy tells the time of a delivery behind a refusal, too.
    return found[:1] if found[0].get("status", {}).get("code") != "OK" else found
