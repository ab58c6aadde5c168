"""Reads and changes the settings of a running broker: 25 and 26.

What may be changed without a new start are the bounds of pulls, which nothing else depends on; every
other key is refused by name. A change holds until the broker starts again: its file is the user's.
Follows AdminBrokerProcessor of RocketMQ 5.3.3, which has a list of what may not be changed instead, and
writes the file anew.

Next: cometmq.model.settings
"""

import logging

import orjson

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.java_properties import decode_java_properties, encode_properties_text
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError, RequestError, SettingsError
from cometmq.model.settings import SettingsInForce, settings_table
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

_CHANGEABLE = frozenset(
    (
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferCountOnMessageInDisk",
    )
)


class Configuration(Feature):
    """The settings as consoles see them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._in_force = SettingsInForce(parts.settings)
        self._version = DataVersion(parts.clock.now_ms())
        self.of_administrators = {
            RequestCode.GET_BROKER_CONFIG: self.read,
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
        }

    def read(self, _command: Command, _peer: Peer) -> Answer:
        """GET_BROKER_CONFIG 26."""
        version = orjson.dumps(self._version.to_json()).decode()
        body = encode_properties_text(settings_table(self._in_force.current))
        return Answer(fields={"version": version}, body=body)

    def change(self, command: Command, peer: Peer) -> Answer:
        """UPDATE_BROKER_CONFIG 25: all of the values, or none."""
        try:
            values = decode_java_properties(command.body)
        except CodecError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
            ) from None
        if refused := sorted(values.keys() - _CHANGEABLE):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list. {', '.join(refused)}: change it in the conf "
                "file and start again",
            )
        try:
            self._in_force.change(values)
        except SettingsError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._parts.store.change_limits(self._in_force.current.store_settings())
        self._version = self._version.next(self._parts.clock.now_ms())
        _log.warning("%s changed settings, until the next start: %s", peer.address, values)
        return Answer()
