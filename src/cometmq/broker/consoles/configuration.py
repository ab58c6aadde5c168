"""Reads and changes the settings of a running broker: 25, 26 and 2004.

By 25 the keys change that are marked so in the settings (`is_remote`), which every part of the broker reads when it matters;
every other key is refused by name. A change holds until the broker starts again: its file is the user's.
Follows AdminBrokerProcessor of RocketMQ 5.3.3, which has a list of what may not be changed instead, and
writes the file anew.

Next: cometmq.model.settings
"""

import logging
from collections.abc import Mapping

import orjson

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.java_properties import decode_java_properties, encode_properties_text
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError, RequestError, SettingsError
from cometmq.model.settings import settings_table
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# MADV_NORMAL and MADV_RANDOM, as `mqadmin setCommitLogReadAheadMode -m` names them.
_READ_AHEAD_BY_MODE = {"0": True, "1": False}


class Configuration(Feature):
    """The settings as consoles see them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._in_force = parts.in_force
        self._is_read_ahead = parts.settings.is_read_ahead
        self._version = DataVersion(parts.clock.now_ms())
        self._in_force.on_change.append(self._tell_store)
        self.answers = {
            RequestCode.GET_BROKER_CONFIG: self.read,
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
            RequestCode.SET_COMMITLOG_READ_MODE: self.set_reading,
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
        if refused := sorted(self._in_force.refused(values)):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list. {', '.join(refused)}: change it in the conf "
                "file and start again",
            )
        try:
            self._in_force.change(values)
        except SettingsError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._changed(values, peer)
        return Answer()

    def set_reading(self, command: Command, peer: Peer) -> Answer:
        """SET_COMMITLOG_READ_MODE 2004: how the system reads the log, as dataReadAheadEnable says it."""
        mode = command.fields.get("READ_AHEAD_MODE")
        if mode not in _READ_AHEAD_BY_MODE:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                "set commitlog readahead mode param value error: READ_AHEAD_MODE is "
                f"{mode!r}; 0 reads ahead, 1 does not",
            )
        values = {"dataReadAheadEnable": str(_READ_AHEAD_BY_MODE[mode]).lower()}
        self._in_force.change(values)
        self._changed(values, peer)
        return Answer(remark=f"set commitlog readahead mode success, mode: {mode}")

    def _tell_store(self) -> None:
        settings, store = self._parts.settings, self._parts.store
        store.change_limits(settings.store_settings())
        if settings.is_read_ahead != self._is_read_ahead:
            self._is_read_ahead = settings.is_read_ahead
            store.change_read_ahead(is_wanted=self._is_read_ahead)

    def _changed(self, values: Mapping[str, str], peer: Peer) -> None:
        self._version = self._version.next(self._parts.clock.now_ms())
        _log.warning("%s changed settings, until the next start: %s", peer.address, values)
