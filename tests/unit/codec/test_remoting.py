"""Commands and frames: the golden vectors of the protocol, both header codings, broken headers."""

import struct
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from cometmq.codec import headers
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.header_binary import decode_binary_header
from cometmq.codec.header_json import encode_json_header
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.remoting import (
    FRAME_SIZE_MAX,
    JSON,
    ROCKETMQ,
    Command,
    decode_command,
    encode_command,
)
from cometmq.kernel import encode_answer_head, requests, split_frames
from cometmq.model.codes import VERSION, Language, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import RESPONSE

# Vectors written by the classes of RocketMQ 5.3.3 (docs/format/remoting.md).
ROUTE_REQUEST_JSON = bytes.fromhex(
    "000000a7000000a37b22636f6465223a3130352c226578744669656c6473223a7b22746f706963223a22546f70"
    "696354657374222c226163636570745374616e646172644a736f6e4f6e6c79223a2274727565227d2c22666c61"
    "67223a302c226c616e6775616765223a224a415641222c226f7061717565223a372c2273657269616c697a6554"
    "79706543757272656e74525043223a224a534f4e222c2276657273696f6e223a3437397d"
)
ROUTE_REQUEST_BINARY = bytes.fromhex(
    "0000004f010000490069 0001df000000070000000000000000000000340005746f70696300000009546f7069"
    "635465737400166163636570745374616e646172644a736f6e4f6e6c7900000004747275656869".replace(
        " ", ""
    )
)
POP_BINARY = bytes.fromhex("00000019010000150d720001df00000009000000000000000000000000")
ROUTE_REQUEST = Command(
    105,
    opaque=7,
    language=Language.JAVA,
    fields={"topic": "TopicTest", "acceptStandardJsonOnly": "true"},
)


def decode(frame):
    ((kind, header, body, end),), position = split_frames(frame, 0, FRAME_SIZE_MAX)
    assert position == len(frame)
    return Command(*decode_command(kind, frame[header:body], frame[body:end]))


def test_a_json_request_has_javas_bytes():
    assert decode(ROUTE_REQUEST_JSON) == ROUTE_REQUEST
    assert encode_command(ROUTE_REQUEST) == ROUTE_REQUEST_JSON


def test_a_binary_request_has_javas_bytes():
    command = ROUTE_REQUEST._replace(kind=ROCKETMQ, body=b"hi")
    assert decode(ROUTE_REQUEST_BINARY) == command
    assert encode_command(command) == ROUTE_REQUEST_BINARY


def test_a_code_cut_to_16_bits_is_understood():
    assert decode(POP_BINARY).code == 200050
    again = Command(200050, opaque=9, language=0, kind=ROCKETMQ)
    assert encode_command(again) == POP_BINARY


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            Command(17, 1, 7, Language.JAVA, remark="No topic route info"),
            (
                '{"code":17,"flag":1,"language":"JAVA","opaque":7,"remark":"No topic route info",'
                '"serializeTypeCurrentRPC":"JSON","version":479}'
            ),
        ),
        (
            Command(40, 2, 8, Language.JAVA),
            (
                '{"code":40,"flag":2,"language":"JAVA","opaque":8,'
                '"serializeTypeCurrentRPC":"JSON","version":479}'
            ),
        ),
    ],
)
def test_answers_and_oneways_have_javas_text(command, text):
    assert encode_command(command)[8:] == text.encode()


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":1}',
        b'{"opaque":3,"code":1,"extFields":null,"new":[1]}',
        b'{"code":1,"language":"MARTIAN","remark":null}',
    ],
)
def test_a_json_header_may_have_any_order_and_leave_things_out(header):
    command = Command(*decode_command(JSON, header, b""))
    assert (command.code, command.fields, command.language) == (1, {}, Language.OTHER)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"7",
        b"null",
        b"{",
        b"{}",
        b'{"code":"10"}',
        b'{"code":true}',
        b'{"code":1.5}',
        b'{"code":1,"extFields":[1]}',
        b'{"code":1,"remark":7}',
        b'{"code":1,"opaque":"x"}',
        b'{"code":1,"language":[]}',
        b"[" * 100_000,
        b'{"code":' + b"9" * 5000 + b"}",
    ],
)
def test_a_broken_json_header_is_a_codec_error(header):
    with pytest.raises(CodecError):
        decode_command(JSON, header, b"")


def test_an_unknown_header_kind_is_a_codec_error():
    with pytest.raises(CodecError, match="kind 7"):
        decode_command(7, b"{}", b"")


def test_every_cut_of_a_binary_header_is_a_codec_error():
    header = ROUTE_REQUEST_BINARY[8:-2]
    for size in range(len(header)):
        with pytest.raises(CodecError):
            decode_binary_header(header[:size])


@pytest.mark.parametrize("remark", [None, "", 'say "no"\n\u20ac'])
@pytest.mark.parametrize("fields", [{}, {"offset": "7", "a\\b": "\u00e4"}])
@pytest.mark.parametrize("code", [0, ResponseCode.SYSTEM_BUSY, -1])
@pytest.mark.parametrize("encode", [encode_answer_head, requests.encode_answer_head])
def test_the_head_of_an_answer_is_that_of_any_command(encode, code, fields, remark):
    header = (int(code), RESPONSE, -5, int(Language.PYTHON), VERSION, remark, fields)
    head = encode(code, -5, remark, fields, 7)
    assert head[8:] == encode_json_header(header)
    assert struct.unpack(">II", head[:8]) == (len(head) - 4 + 7, len(head) - 8)


def test_a_frame_beyond_the_limit_is_not_made():
    with pytest.raises(CodecError, match="close the connection"):
        encode_command(Command(10, body=bytes(FRAME_SIZE_MAX)))


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


def test_a_wrong_truth_value_is_refused():
    @dataclass(frozen=True)
    class Switch:
        is_on: bool

    assert decode_fields(Switch, {"isOn": "TRUE"}).is_on
    with pytest.raises(RequestError, match="isOn"):
        decode_fields(Switch, {"isOn": "1"})


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
