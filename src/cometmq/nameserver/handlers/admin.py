"""Handlers for requests about key-value configuration, permissions, topics and settings.

Codes 100, 101, 102, 205, 216, 219, 318, 319, 327. `nameserver.requests` lists the rights that they need.
"""

from collections.abc import Mapping
from functools import partial

from cometmq.codec.bodies.kv import encode_kv_table
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
from cometmq.codec.java_properties import decode_changed_settings, encode_properties_text
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError, SettingsError, invalid_parameter
from cometmq.model.settings import SettingsInForce, settings_table
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answering import body_of, by_body, by_code, by_fields, header_of
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.conf_file import ConfFile


def admin_answers(
    table: RouteTable,
    kv: KvConfig,
    settings: SettingsInForce[NameServerSettings],
    conf: ConfFile,
) -> Answers:
    """Return the handlers of requests about key-value configuration, permissions, topics and settings."""
    return {
        RequestCode.GET_KV_CONFIG: by_fields(KvConfigRequest, partial(_item, kv), header_of),
        RequestCode.GET_KVLIST_BY_NAMESPACE: by_fields(
            KvNamespaceRequest, partial(_items, kv), body_of(encode_kv_table)
        ),
        RequestCode.PUT_KV_CONFIG: by_fields(
            PutKvConfig, lambda item: kv.put(item.namespace, item.key, item.value)
        ),
        RequestCode.DELETE_KV_CONFIG: by_fields(
            KvConfigRequest, lambda item: kv.delete(item.namespace, item.key)
        ),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: by_fields(
            BrokerNameRequest,
            lambda broker: WipeWritePermResponse(table.wipe_write_perm(broker.broker_name)),
            header_of,
        ),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: by_fields(
            BrokerNameRequest,
            lambda broker: AddWritePermResponse(table.add_write_perm(broker.broker_name)),
            header_of,
        ),
        # Brokers may register the topic again.
        RequestCode.DELETE_TOPIC_IN_NAMESRV: by_fields(
            DeleteTopicInNameserver,
            lambda request: table.delete_topic(request.topic, request.cluster_name or None),
        ),
        RequestCode.UPDATE_NAMESRV_CONFIG: by_body(
            decode_changed_settings, lambda values: _change(settings, conf, values)
        ),
        # Secrets are hidden.
        RequestCode.GET_NAMESRV_CONFIG: by_code(
            lambda: settings_table(settings.current), body_of(encode_properties_text)
        ),
    }


def _item(kv: KvConfig, request: KvConfigRequest) -> KvConfigResponse:
    value = kv.value(request.namespace, request.key)
    if value is None:
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {request.namespace} Key: {request.key}",
        )
    return KvConfigResponse(value)


def _items(kv: KvConfig, request: KvNamespaceRequest) -> Mapping[str, str]:
    table = kv.table(request.namespace)
    if table is None:
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {request.namespace}"
        )
    return table


def _change(
    settings: SettingsInForce[NameServerSettings], conf: ConfFile, values: Mapping[str, str]
) -> Steps[None]:
    """Change settings, and store them in the conf file.

    Raises RequestError, and changes none, if one is unknown or invalid, or no request may change it. Without a conf
    file, or if only storing fails (RequestError as well), the changes last until the process ends.
    """
    if refused := settings.refused(values):
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"Can not update config in black list. {', '.join(refused)}: change it in the conf "
            "file and start again",
        )
    try:
        settings.change(values)
        yield from elsewhere(lambda: conf.remember(values))
    except SettingsError as error:
        raise invalid_parameter(str(error)) from error
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the change is effective until the next start, but could not be written to the file: {error.strerror}",
        ) from error
