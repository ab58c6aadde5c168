"""Commands and frames: the golden vectors of the protocol, both header codings, broken headers."""

import struct

import pytest

from cometmq.codec.header_binary import decode_binary_header
from cometmq.codec.header_json import encode_json_header
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
from cometmq.model.errors import CodecError
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
