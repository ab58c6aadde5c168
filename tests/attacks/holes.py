"""Holes of RocketMQ as deeds: each asks a server, ours or Java's, and gives what it got away with."""

import contextlib
import struct
import time

from tests.attacks.stranger import Stranger
from tests.support.frames import connect
from tests.support.load import send_all

UPDATE_CONFIG, GET_CONFIG = 25, 26
# Requests whose headers are all missing.
CARELESS = (10, 11, 12, 14, 15, 17, 29, 30, 33, 35, 36, 38, 202, 203, 310)
INSIDES = ("Exception", "Traceback", "java.", "org.apache", "cometmq.", ".py")


def settings_without_login(address: str) -> list[int]:
    """S4: the codes of reading and changing the settings without any credentials."""
    with Stranger(address) as stranger:
        told = stranger.ask(GET_CONFIG).code
        changed = stranger.ask(UPDATE_CONFIG, body=b"maxMessageSize=4194304\n").code
    return [told, changed]


def bytes_of_the_log(ha_address: str, wanted: bytes, *, seconds: float = 10) -> bytes:
    """S6: what the HA port gives to somebody who says that he is a slave with nothing, until `wanted` is in it."""
    got = b""
    with (
        contextlib.suppress(ConnectionError, TimeoutError),
        connect(ha_address, seconds=seconds) as stranger,
    ):
        stranger.sendall(struct.pack(">q", 0))
        while wanted not in got and (piece := stranger.recv(65_536)):
            got += piece
    return got


def send_with_a_fake_slave(address: str, ha_address: str, topic: str) -> int:
    """S6: the code of a send that waits for a slave, while a stranger says that he has whatever there is."""
    with connect(ha_address, seconds=10) as stranger:
        stranger.settimeout(0.2)
        code = -1
        with contextlib.suppress(ConnectionError):
            stranger.sendall(struct.pack(">q", 0))
        for _ in range(10):
            with contextlib.suppress(ConnectionError, TimeoutError):
                stranger.recv(65_536)
            with contextlib.suppress(ConnectionError):
                stranger.sendall(struct.pack(">q", (1 << 62) - 1) * 3)
            [code] = send_all(address, topic, [b"x"])
            if code == 0:
                break
            time.sleep(0.3)
    return code


def insides_in_errors(address: str) -> list[str]:
    """S12: remarks that name a class, a file or a trace."""
    with Stranger(address) as stranger:
        remarks = [stranger.ask(code).remark for code in CARELESS]
    return [remark for remark in remarks if any(word in remark for word in INSIDES)]
