"""Requests for the settings (25, 26, 2004), and to clean files and queues (306, 316, 329)."""

import orjson

from cometmq.broker.admin.cleaning import Cleaning
from cometmq.broker.admin.configuration import Configuration
from cometmq.broker.parts import Parts
from cometmq.codec.headers.console import CHANGED_KEYS, SET_KEYS
from cometmq.codec.java_properties import decode_changed_settings, encode_properties_text
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.answering import as_is, by_body, by_code
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere


def configuration_answers(parts: Parts) -> Answers:
    """Return the handlers of requests to read and change the broker's settings."""
    configuration = Configuration(parts)

    def read() -> Answer:
        # Secrets are hidden.
        version = orjson.dumps(configuration.version.to_json()).decode()
        body = encode_properties_text(configuration.table())
        changed = ",".join(configuration.changed())
        fields = {"version": version, SET_KEYS: ",".join(configuration.set_keys())}
        if changed:
            fields[CHANGED_KEYS] = changed
        return Answer(fields=fields, body=body)

    def change(values: dict[str, str]) -> Steps[None]:
        configuration.change(values)
        yield from elsewhere(lambda: configuration.keep(values))

    def set_reading(command: Command, _peer: Peer) -> Answer:
        mode = command.fields.get("READ_AHEAD_MODE")
        configuration.set_reading(mode)
        return Answer(remark=f"set commitlog readahead mode success, mode: {mode}")

    return {
        RequestCode.GET_BROKER_CONFIG: by_code(read, as_is),
        RequestCode.UPDATE_BROKER_CONFIG: by_body(decode_changed_settings, change),
        RequestCode.SET_COMMITLOG_READ_MODE: set_reading,
    }


def cleaning_answers(cleaning: Cleaning) -> Answers:
    """Return the handlers of requests to delete expired files, queues of missing topics, and empty superfluous queues."""
    return {
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: by_code(cleaning.clean_queues),
        RequestCode.CLEAN_UNUSED_TOPIC: by_code(cleaning.clean_topics),
        RequestCode.DELETE_EXPIRED_COMMITLOG: by_code(cleaning.delete_expired),
    }
