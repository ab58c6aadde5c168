"""Signatures: the bytes of RocketMQ's AclSigner, HMAC as the standard library has it, and what a client adds to its requests."""

from __future__ import annotations

import base64
import hmac
import os

import pytest

from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.pull_text import pull_text
from cometmq.codec.remoting import Command
from cometmq.codec.send_text import back_text, front_text, json_text, middle_text
from cometmq.codec.signature import signature, signed_content
from cometmq.codec.signer import Signer
from cometmq.kernel import encode_requests
from cometmq.model.credentials import Credentials, read_credentials
from cometmq.model.errors import CodecError, SettingsError
from cometmq.wire.connection import Connection

SIGNER = Signer(Credentials("user", "s3cret-key", "a-token"))


@pytest.mark.parametrize("size", [1, 7, 20, 63, 64, 65, 200])
def test_it_is_hmac_whatever_the_key(size):
    key, content = os.urandom(size), os.urandom(300)
    wanted = base64.b64encode(hmac.digest(key, content, "sha1"))
    assert signature(key, content) == wanted


def test_it_is_that_of_aclsigner():
    assert signature(b"12345678", b"abc") == b"BOigG5+Fiv0354g5bQuwOUOPMp0="


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, b""),
        ({"a": "1"}, b"1"),
        ({"Signature": "x"}, b""),
        ({"b": "2", "a": "1", "AccessKey": "k", "Signature": "x"}, b"k12"),
        # UTF-16 has what is beyond 16 bits before U+FF01.
        ({"\uff01": "2", "\U0001f600": "1"}, b"12"),
        ({"a": "\u00e9"}, "\u00e9".encode()),
        # As C++ clients write some fields of JSON, which Java takes for texts.
        ({"a": 4, "b": "x", "c": True, "d": False, "e": -1}, b"4xtruefalse-1"),
    ],
)
def test_values_are_joined_in_the_order_of_their_names_as_java_has_it(fields, wanted):
    assert signed_content(fields, b"body") == wanted + b"body"


@pytest.mark.parametrize("value", [1.5, None, ["a"], {"a": 1}, "\ud800"])
def test_what_is_no_text_cannot_be_signed(value):
    for fields in ({"a": value}, {"a": value, "b": "x"}):
        with pytest.raises(CodecError):
            signed_content(fields, b"")


def test_a_send_that_is_text_is_signed_as_a_command_of_the_same_fields():
    properties = 'UNIQ_KEY\x01A\x02quoted\x01"}\\\x02'
    pieces = (
        front_text(310, 'g"', "topic", "TBW102", 4), 3,
        middle_text(0, 1_700_000_000_000, 7, json_text(properties), ',"m":"true"'), back_text("broker}a"),
    )  # fmt: skip
    wire: Connection[None] = Connection()
    frame = encode_requests(
        [wire.send(SIGNER.signed_pieces(pieces, b"body"), b"body", None, 1.0)]
    )
    (sent,) = Connection[None]().receive_data(frame)
    fields = dict(sent[6])
    unsigned = {
        name: text
        for name, text in fields.items()
        if name not in {"AccessKey", "Signature", "SecurityToken"}
    }
    assert unsigned["i"] == properties
    assert unsigned["n"] == "broker}a"
    assert SIGNER.signed(Command(310, fields=unsigned, body=b"body")).fields == fields
    assert "s3cret" not in str(fields)


def test_a_pull_that_is_text_is_signed_as_a_command_of_the_same_fields():
    header = PullRequest("group", "topic", 3, 17, 32, 7, 16, broker_name='broker"a')
    unsigned = Command(11, fields=encode_fields(header))
    pieces = SIGNER.signed_pieces(pull_text(header).pieces(17, 16), b"")
    frame = encode_requests([Connection[None]().send(pieces, b"", None, 1.0)])
    (sent,) = Connection[None]().receive_data(frame)
    assert dict(sent[6]) == SIGNER.signed(unsigned).fields


def test_credentials_show_no_secret_and_are_whole():
    assert "s3cret" not in repr(Credentials("user", "s3cret-key", "t0ken"))
    assert "t0ken" not in repr(Credentials("user", "s3cret-key", "t0ken"))
    for keys in (("", "x"), ("x", ""), (1, "x"), ("x", None)):
        with pytest.raises(SettingsError):
            Credentials(*keys)
    for text in (
        "",
        "{",
        "[]",
        '{"accessKey": "a"}',
        '{"accessKey": "a", "secretKey": ["s3cret"]}',
        "[" * 100_000,
    ):
        with pytest.raises(SettingsError, match="someKey must be") as caught:
            read_credentials(text, "someKey")
        assert "s3cret" not in str(caught.value)
