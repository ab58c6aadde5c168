"""Handlers for requests about key-value configuration, permissions, topics and settings.

Codes 100, 101, 102, 205, 216, 219, 318, 319, 327. `nameserver.requests` lists the rights that they need.
"""

from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.nameserver import (
    AddWritePermResponse,
    BrokerNameRequest,
    DeleteTopicInNameserver,
    KvConfigRequest,
    KvConfigResponse,
    KvNamespaceRequest,
    PutKvConfig,
    WipeWritePermResponse,
)
from cometmq.codec.java_properties import decode_java_properties, encode_properties_text
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError, SettingsError
from cometmq.model.settings import SettingsInForce, settings_table
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.conf_file import ConfFile


class AdminHandlers:
    """Handlers of requests about key-value configuration, permissions, topics and settings."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        settings: SettingsInForce[NameServerSettings],
        conf: ConfFile,
    ) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._conf = conf
        self.answers: Answers = {
            RequestCode.GET_KV_CONFIG: self.handle_get_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.handle_kv_table,
            RequestCode.PUT_KV_CONFIG: self.handle_put_kv,
            RequestCode.DELETE_KV_CONFIG: self.handle_delete_kv,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.handle_wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.handle_add_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.handle_delete_topic,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.handle_change_settings,
            RequestCode.GET_NAMESRV_CONFIG: self.handle_get_settings,
        }

    def handle_put_kv(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Set a key-value configuration item (PUT_KV_CONFIG 100); raise RequestError if it cannot be saved."""
        header = decode_fields(PutKvConfig, command.fields)
        yield from self._kv.put(header.namespace, header.key, header.value)
        return Answer()

    def handle_get_kv(self, command: Command, _peer: Peer) -> Answer:
        """Return a configuration item's value (GET_KV_CONFIG 101); raise RequestError (QUERY_NOT_FOUND) without one."""
        header = decode_fields(KvConfigRequest, command.fields)
        value = self._kv.value(header.namespace, header.key)
        if value is None:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(fields=encode_fields(KvConfigResponse(value)))

    def handle_delete_kv(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Delete a key-value item, if there is one (DELETE_KV_CONFIG 102); raise RequestError if that cannot be saved."""
        header = decode_fields(KvConfigRequest, command.fields)
        yield from self._kv.delete(header.namespace, header.key)
        return Answer()

    def handle_kv_table(self, command: Command, _peer: Peer) -> Answer:
        """Return the items of a namespace (GET_KVLIST_BY_NAMESPACE 219); RequestError (QUERY_NOT_FOUND) if unknown."""
        header = decode_fields(KvNamespaceRequest, command.fields)
        table = self._kv.table(header.namespace)
        if table is None:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}"
            )
        return Answer(body=encode_kv_table(table))

    def handle_wipe_write_perm(self, command: Command, _peer: Peer) -> Answer:
        """Make a broker's queues unwritable in routes; return its number of topics (WIPE_WRITE_PERM_OF_BROKER 205)."""
        header = decode_fields(BrokerNameRequest, command.fields)
        count = self._table.wipe_write_perm(header.broker_name)
        return Answer(fields=encode_fields(WipeWritePermResponse(count)))

    def handle_add_write_perm(self, command: Command, _peer: Peer) -> Answer:
        """Make a broker's queues readable and writable in routes; return its number of topics (request code 327)."""
        header = decode_fields(BrokerNameRequest, command.fields)
        count = self._table.add_write_perm(header.broker_name)
        return Answer(fields=encode_fields(AddWritePermResponse(count)))

    def handle_delete_topic(self, command: Command, _peer: Peer) -> Answer:
        """Delete a topic from routes of one cluster or all; brokers may register it again (DELETE_TOPIC_IN_NAMESRV)."""
        header = decode_fields(DeleteTopicInNameserver, command.fields)
        self._table.delete_topic(header.topic, header.cluster_name or None)
        return Answer()

    def handle_get_settings(self, _command: Command, _peer: Peer) -> Answer:
        """Return the settings as properties, with secrets hidden (GET_NAMESRV_CONFIG 319)."""
        return Answer(body=encode_properties_text(settings_table(self._settings.current)))

    def handle_change_settings(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Change settings, and store them in the conf file (UPDATE_NAMESRV_CONFIG 318).

        Raises RequestError, and changes none, if one is unknown or invalid, or no request may change it. Without a conf
        file, or if only storing fails (RequestError as well), the changes last until the process ends.
        """
        try:
            values = decode_java_properties(command.body)
        except CodecError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
            ) from error
        if refused := self._settings.refused(values):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list. {', '.join(refused)}: change it in the conf "
                "file and start again",
            )
        try:
            self._settings.change(values)
            yield from elsewhere(lambda: self._conf.remember(values))
        except SettingsError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from error
        except OSError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the change is effective until the next start, but could not be written to the file: {error.strerror}",
            ) from error
        return Answer()
