"""Requests GET_BROKER_CONFIG 26, UPDATE_BROKER_CONFIG 25 and SET_COMMITLOG_READ_MODE 2004."""

import orjson

from cometmq.broker.admin.configuration import Configuration
from cometmq.broker.parts import Feature, Parts
from cometmq.codec.headers.console import CHANGED_KEYS, SET_KEYS
from cometmq.codec.java_properties import decode_java_properties, encode_properties_text
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.steps import Steps, elsewhere


class ConfigurationHandler(Feature):
    """Handles requests to read and change the broker's settings."""

    def __init__(self, parts: Parts) -> None:
        self._configuration = Configuration(parts)
        self.answers = {
            RequestCode.GET_BROKER_CONFIG: self.read,
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
            RequestCode.SET_COMMITLOG_READ_MODE: self.set_reading,
        }

    def read(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the settings, secrets hidden, as text in the form of a properties file (GET_BROKER_CONFIG 26)."""
        version = orjson.dumps(self._configuration.version.to_json()).decode()
        body = encode_properties_text(self._configuration.table())
        changed = ",".join(self._configuration.changed())
        fields = {"version": version, SET_KEYS: ",".join(self._configuration.set_keys())}
        if changed:
            fields[CHANGED_KEYS] = changed
        return Answer(fields=fields, body=body)

    def change(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Change all settings in the request or none; save them if there is a conf file (UPDATE_BROKER_CONFIG 25)."""
        try:
            values = decode_java_properties(command.body)
        except CodecError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
            ) from None
        self._configuration.change(values)
        yield from elsewhere(lambda: self._configuration.keep(values))
        return Answer()

    def set_reading(self, command: Command, _peer: Peer) -> Answer:
        """Set whether the log is read ahead, until the next start (SET_COMMITLOG_READ_MODE 2004)."""
        mode = command.fields.get("READ_AHEAD_MODE")
        self._configuration.set_reading(mode)
        return Answer(remark=f"set commitlog readahead mode success, mode: {mode}")
