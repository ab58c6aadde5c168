"""Signed sends in the bytes of a connection: the compiled kernel, the plain one and the careful way say the same of them."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.codec.signature import signature, signed_content
from cometmq.kernel import columns, lane_table, queue_ends, signatures, taking
from tests.support.lane_tables import table_of
from tests.support.send_frames import FORMS, SENDS, WORDS, Sent, frame_of
from tests.support.twin_turns import twin_calls, twin_timeout

try:
    from tests.support import compiled_kernel as fast
except ImportError:
    # Without a compiler there is one kernel; with one, a twin that was not built is a fault.
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)

pytestmark = pytest.mark.timeout(twin_timeout())

USER, SECRET = "me", b"a secret of mine"
LIMITS = 1 << 20, 1 << 24, 1 << 16, 99
HOST = b"hosthost"
PLAIN = {
    "a": "p", "b": "Orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\1A1\2n\1x y\2TAGS\1TagA\2", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
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


class Plain:
    """The plain kernel, by the names of the compiled one."""

    KnownSigner = signatures.KnownSigner
    QueueEnd = queue_ends.QueueEnd
    LaneTable = lane_table.LaneTable
    SendBatch = columns.SendBatch
    take_sends = staticmethod(taking.take_sends)


def said(kernel, data, count_max, user=b"me", secret=SECRET):
    """How many sends a kernel takes that a user has signed, and the topics about which it asks."""
    batch, signer = kernel.SendBatch(b""), kernel.KnownSigner(user, secret)
    queues = {number: kernel.QueueEnd(number) for number in range(3)}
    straight = table_of(kernel, dict.fromkeys(("Orders", "Bills", "T" * 100), queues))
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
def test_both_kernels_and_the_careful_way_find_the_same_signed(sends, cut, count_max):
    whole = [(signed(sent, spoilt), form) for sent, form, spoilt in sends]
    data = b"".join(frame_of(sent, form) for sent, form in whole)
    data = data[: len(data) - cut] if cut < len(data) else data
    found = said(fast, data, count_max)
    assert found == said(Plain, data, count_max)
    for sent, _ in whole[: found[0]]:
        given_one = sent.fields["Signature"].encode()
        assert signature(SECRET, signed_content(sent.fields, sent.body)) == given_one
        assert sent.fields["AccessKey"] == USER
    topics = {sent.fields[topic_of(sent)].encode() for sent, _ in whole[: found[0]]}
    assert topics <= set(found[1])
    assert len(set(found[1])) == len(found[1])


@pytest.mark.parametrize("form", ["json", "raw", "binary", "order"])
@pytest.mark.parametrize("kernel", [fast, Plain], ids=["compiled", "plain"])
def test_what_official_clients_sign_is_known(kernel, form):
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
    assert said(kernel, data, 9) == (3, [b"Orders", b"Bills"])
    assert said(kernel, data, 2) == (2, [b"Orders", b"Bills"])
    assert said(kernel, data, 9, secret=SECRET + b"x") == (0, [])
    assert said(kernel, data, 9, user=b"mee") == (0, [])


@pytest.mark.parametrize("kernel", [fast, Plain], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    "name", ["AccessKey", "Signature", "b", "extFields", "more", "SecurityToken"]
)
def test_a_name_that_comes_twice_or_that_no_send_has_is_asked_about_with_care(kernel, name):
    frame = frame_of(signed(Sent(310, 0, 1, PLAIN, b"body"), None), "json")
    header = frame[8:-4]
    twice = header.replace(b'"extFields":{', b'"extFields":{"%s":"me",' % name.encode())
    if name == "extFields":
        twice = b'{"extFields":{"b":"Bills"},' + header[1:]
    data = (8 + len(twice)).to_bytes(4) + len(twice).to_bytes(4) + twice + b"body"
    assert said(kernel, frame, 9)[0] == 1
    assert said(kernel, data, 9)[0] == 0
    assert said(kernel, frame + data + frame, 9)[0] == 1


@given(st.integers(0, 700), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=twin_calls(1000), deadline=None)
def test_a_damaged_header_means_the_same_to_both(at, garbage, removed):
    good = frame_of(signed(Sent(310, 0, 1, PLAIN, b"body"), None), "json")
    header = good[8:-4]
    at %= len(header)
    bad = header[:at] + garbage + header[at + removed :]
    data = good + (8 + len(bad)).to_bytes(4) + len(bad).to_bytes(4) + bad + b"body" + good
    assert said(fast, data, 9) == said(Plain, data, 9)


@pytest.mark.parametrize("is_plain", [False, True], ids=["fastest", "plain"])
def test_the_digest_is_that_of_sha1(is_plain):
    for size in (*range(200), 1_000, 65_537):
        content = bytes(number * 7 & 255 for number in range(size))
        assert fast.sha1(content, is_plain) == hashlib.sha1(content).digest()


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 200])
def test_secrets_of_any_length_sign_as_hmac_does(size):
    secret = bytes(range(1, size + 1))
    sent = Sent(310, 0, 1, {**PLAIN, "AccessKey": USER}, b"body")
    content = signed_content(sent.fields, sent.body)
    made = b64encode(hmac.digest(secret, content, "sha1")).decode()
    data = frame_of(sent._replace(fields={**sent.fields, "Signature": made}), "json")
    assert said(fast, data, 1, secret=secret)[0] == said(Plain, data, 1, secret=secret)[0] == 1


def test_a_signer_of_another_kernel_is_refused():
    with pytest.raises(TypeError, match="KnownSigner"):
        fast.take_sends(
            fast.SendBatch(b""),
            b"",
            0,
            1,
            HOST,
            fast.LaneTable(),
            LIMITS,
            signatures.KnownSigner(b"me", SECRET),
        )
