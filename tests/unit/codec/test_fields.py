"""Custom headers: names, types, what is missing and what is wrong."""

from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from cometmq.codec import headers
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import SendRequestV2
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError

PULL = {
    "consumerGroup": "g",
    "topic": "t",
    "queueId": "3",
    "queueOffset": "9",
    "maxMsgNums": "32",
    "sysFlag": "4",
}


def test_attributes_are_camel_case_on_the_wire():
    request = decode_fields(PullRequest, PULL)
    assert (request.consumer_group, request.queue_offset, request.sub_version) == ("g", 9, 0)
    assert encode_fields(request) == PULL | {
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
    }


def test_named_attributes_use_their_wire_name():
    request = SendRequestV2("group", "topic", 1, 0, 5, 0, batch=True)
    fields = encode_fields(request)
    assert (fields["a"], fields["b"], fields["m"]) == ("group", "topic", "true")
    assert decode_fields(SendRequestV2, fields) == request


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "queueId", "sysFlag"])
def test_a_missing_field_is_refused_by_name(name):
    fields = {key: value for key, value in PULL.items() if key != name}
    with pytest.raises(RequestError, match=f"{name} is missing") as refused:
        decode_fields(PullRequest, fields)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("value", ["", "x", "1.5", "9" * 30, "0x10", [], {}, True])
def test_a_wrong_number_is_refused_by_name(value):
    with pytest.raises(RequestError, match="queueId has the wrong value"):
        decode_fields(PullRequest, PULL | {"queueId": value})


@dataclass(frozen=True)
class Switch:
    is_on: bool


@pytest.mark.parametrize("value", ["", "x", "2", "-1", "10", "yes", [], {}])
def test_a_wrong_truth_value_is_refused(value):
    with pytest.raises(RequestError, match="isOn has the wrong value"):
        decode_fields(Switch, {"isOn": value})


@pytest.mark.parametrize(
    ("on", "off"), [("true", "false"), ("TRUE", "False"), ("1", "0"), (1, 0)]
)
def test_a_truth_value_may_be_written_as_clients_of_other_languages_do(on: Any, off: Any):
    assert decode_fields(Switch, {"isOn": on}).is_on
    assert not decode_fields(Switch, {"isOn": off}).is_on


def test_unknown_fields_are_left_alone():
    assert decode_fields(PullRequest, PULL | {"new": "1"}) == decode_fields(PullRequest, PULL)


def all_headers() -> list[Any]:
    modules = [
        import_module(f"{headers.__name__}.{each.name}")
        for each in iter_modules(headers.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if is_dataclass(value) and value.__module__ == module.__name__
    ]


@pytest.mark.parametrize("header", all_headers(), ids=lambda header: str(header.__name__))
def test_every_header_is_read_from_its_fields(header):
    sent = header(**{each.name: given_for(each.type) for each in fields(header)})
    assert decode_fields(header, encode_fields(sent)) == sent


def given_for(kind: object) -> object:
    # From Python 3.14 on, `int | None` has a __name__, too: "Union".
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    return {"int": 7, "bool": True}.get(name.split(" ")[0], "x")
