"""Signed sends in the bytes of a connection: what the fast path lets pass, the slow path says is signed."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq import kernel
from cometmq.codec.signature import signature, signed_content
from tests.support.lane_tables import table_of
from tests.support.send_frames import FORMS, SENDS, WORDS, Sent, frame_of
from tests.support.twin_turns import twin_calls, twin_timeout

pytestmark = [
    pytest.mark.timeout(twin_timeout()),
    pytest.mark.compiled,
]

USER, SECRET = "me", b"a secret of mine"
LIMITS = 1 << 20, 1 << 24, 1 << 16, 99
HOST = b"hosthost"
PLAIN = {
    "a": "p", "b": "Orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\1A1\2n\1x y\2TAGS\1TagA\2", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
# Forms with a field that no send has, or one twice.
STRANGE = ("more", "twice")
# What is done to a send behind its signature, or instead of it.
SPOILT = st.sampled_from([
    None, None, None, None, "user", "signature", "unsigned", "empty", "body", "topic", "token", "none", "moved", "zero",
])  # fmt: skip


def topic_of(sent: Sent) -> str:
    return WORDS["b"] if sent.code == 10 else "b"


def signed(sent: Sent, spoilt: str | None) -> Sent:
    topic = topic_of(sent)
    fields = {**sent.fields, "AccessKey": USER}
    if spoilt == "token":
        fields["SecurityToken"] = "t"
    made = signature(SECRET, signed_content(fields, sent.body)).decode()
    fields["Signature"] = made
    if spoilt == "user":
        fields["AccessKey"] = "you"
    elif spoilt == "signature":
        fields["Signature"] = made[:5] + ("A" if made[5] != "A" else "B") + made[6:]
    elif spoilt == "unsigned":
        del fields["Signature"]
    elif spoilt == "empty":
        fields["Signature"] = ""
    elif spoilt == "topic":
        fields[topic] = "Bills" if fields.get(topic) != "Bills" else "Orders"
    elif spoilt == "none":
        fields.pop(topic, None)
    elif (
        spoilt == "moved"
    ):  # The same text, of other fields: what is signed has nothing between.
        first = WORDS["a"] if sent.code == 10 else "a"
        fields[first], fields[topic] = (fields.get(first, "") + fields.get(topic, ""), "")
    elif spoilt == "zero":
        fields["Signature"] = "A" * 27 + "="
    body = sent.body + b"x" if spoilt == "body" else sent.body
    return sent._replace(fields=fields, body=body)


def lanes() -> Any:
    queues = {number: kernel.QueueEnd(number) for number in range(3)}
    return table_of(kernel, dict.fromkeys(("Orders", "Bills", "T" * 100), queues))


def is_taken(frame: bytes) -> bool:
    """Whether a send is taken where nobody must sign."""
    batch: Any = kernel.SendBatch(b"")
    return kernel.take_sends(batch, frame, 0, 1, HOST, lanes(), LIMITS) > 0


def said(data, count_max, user=b"me", secret=SECRET):
    """How many sends are taken that a user has signed, and the topics about which is asked."""
    batch: Any = kernel.SendBatch(b"")
    signer, straight = kernel.KnownSigner(user, secret), lanes()
    position = 0
    asked: list[bytes] = []
    while True:
        left = count_max - batch.request_count
        position = kernel.take_sends(
            batch, data, position, left, HOST, straight, LIMITS, signer
        )
        if signer.asked is None:
            return batch.request_count, asked
        asked.append(signer.asked)
        signer.topics.add(signer.asked)


@given(
    st.lists(st.tuples(SENDS, FORMS, SPOILT), min_size=1, max_size=5), st.integers(0, 40), st.integers(1, 6)
)  # fmt: skip
@settings(max_examples=twin_calls(400), deadline=None)
def test_what_passes_is_signed_and_what_is_plain_and_signed_passes(sends, cut, count_max):
    whole = [(signed(sent, spoilt), form) for sent, form, spoilt in sends]
    frames = [frame_of(sent, form) for sent, form in whole]
    data = b"".join(frames)
    data = data[: len(data) - cut] if cut < len(data) else data
    found = said(data, count_max)
    passing = 0
    for frame, (sent, form, spoilt) in zip(frames, sends, strict=True):
        # A field of another name, or one that comes twice, is asked about with care.
        is_strange = form in STRANGE or (
            sent.code == 10 and not sent.fields.keys() <= {*WORDS.values(), "AccessKey"}
        )
        if spoilt is not None or is_strange or not is_taken(frame):
            break
        passing += len(b"".join(frames[: passing + 1])) <= len(data)
    assert found[0] >= min(passing, count_max)
    for sent, _ in whole[: found[0]]:
        given_one = sent.fields["Signature"].encode()
        assert signature(SECRET, signed_content(sent.fields, sent.body)) == given_one
        assert sent.fields["AccessKey"] == USER
    topics = {sent.fields[topic_of(sent)].encode() for sent, _ in whole[: found[0]]}
    assert topics <= set(found[1])
    assert len(set(found[1])) == len(found[1])


@pytest.mark.parametrize("form", ["json", "raw", "binary", "order"])
def test_what_official_clients_sign_is_known(form):
    topics = ("Orders", "Bills", "Orders")
    blocks = dict.fromkeys(("raw", "binary"), "UNIQ_KEY\1A1\2n\1\u00e9\2") | dict.fromkeys(
        ("json", "order"), PLAIN["i"]
    )
    sends = [
        signed(
            Sent(310, 0, number, {**PLAIN, "b": topic, "i": blocks[form]}, b"body" * number),
            None,
        )
        for number, topic in enumerate(topics, 1)
    ]
    data = b"".join(frame_of(sent, form) for sent in sends)
    assert said(data, 9) == (3, [b"Orders", b"Bills"])
    assert said(data, 2) == (2, [b"Orders", b"Bills"])
    assert said(data, 9, secret=SECRET + b"x") == (0, [])
    assert said(data, 9, user=b"mee") == (0, [])


@pytest.mark.parametrize(
    "name", ["AccessKey", "Signature", "b", "extFields", "more", "SecurityToken"]
)
def test_a_name_that_comes_twice_or_that_no_send_has_is_asked_about_with_care(name):
    frame = frame_of(signed(Sent(310, 0, 1, PLAIN, b"body"), None), "json")
    header = frame[8:-4]
    twice = header.replace(b'"extFields":{', b'"extFields":{"%s":"me",' % name.encode())
    if name == "extFields":
        twice = b'{"extFields":{"b":"Bills"},' + header[1:]
    data = (8 + len(twice)).to_bytes(4) + len(twice).to_bytes(4) + twice + b"body"
    assert said(frame, 9)[0] == 1
    assert said(data, 9)[0] == 0
    assert said(frame + data + frame, 9)[0] == 1


@given(st.integers(0, 700), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=twin_calls(1000), deadline=None)
def test_a_damaged_header_passes_only_where_it_says_the_same(at, garbage, removed):
    good = frame_of(signed(Sent(310, 0, 1, PLAIN, b"body"), None), "json")
    header = good[8:-4]
    at %= len(header)
    bad = header[:at] + garbage + header[at + removed :]
    data = good + (8 + len(bad)).to_bytes(4) + len(bad).to_bytes(4) + bad + b"body" + good
    count, _ = said(data, 9)
    if count == 1:
        return
    assert count == 3
    fields = json.loads(bad)["extFields"]
    made = signature(SECRET, signed_content(fields, b"body")).decode()
    assert (fields["AccessKey"], fields["Signature"]) == (USER, made)


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 200])
def test_secrets_of_any_length_sign_as_hmac_does(size):
    secret = bytes(range(1, size + 1))
    assert said(signed_send(secret), 1, secret=secret)[0] == 1


WITHOUT_OPENSSL = """
import sys
sys.modules["_hashlib"] = None
from tests.property.test_signature_twins import said, signed_send
print(said(signed_send(b"secret"), 1, secret=b"secret"))
"""


def signed_send(secret: bytes) -> bytes:
    """The frame of a send that a user signed."""
    sent = Sent(310, 0, 1, {**PLAIN, "AccessKey": USER}, b"body")
    made = b64encode(hmac.digest(secret, signed_content(sent.fields, sent.body), "sha1"))
    return frame_of(sent._replace(fields={**sent.fields, "Signature": made.decode()}), "json")


def test_without_openssl_a_signed_send_is_left_to_the_slow_path():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENSSL], capture_output=True, text=True, check=True
    )
    assert done.stdout == "(0, [])\n"
