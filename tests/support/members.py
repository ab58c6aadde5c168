"""The members of a broker's group, asked and looked at by hand."""

import json
from pathlib import Path

from cometmq.model.codes import RequestCode
from tests.support.frames import ask
from tests.support.request_fields import word_send_fields


def send_to(address: str, body: bytes = b"x", topic: str = "orders") -> tuple[int, str]:
    """Send a message to a broker, whatever routes say; code and remark of the answer."""
    header, _ = ask(address, RequestCode.SEND_MESSAGE, word_send_fields(topic), body)
    return header["code"], header.get("remark", "")


def log_of(folder: Path) -> bytes:
    """The log in the folder of a broker that has one file, up to its last record; b"" while there is none."""
    path = folder / "store/commitlog/00000000000000000000"
    return path.read_bytes().rstrip(b"\0") if path.exists() else b""


def end_of(address: str) -> int:
    """The physical offset at which a broker's log ends."""
    said = json.loads(ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)[1])
    return int(said["table"]["commitLogMaxOffset"])
