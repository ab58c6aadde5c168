"""Frames between members of a group: what is sent arrives, and what is faulty is refused."""

from __future__ import annotations

import json

import pytest

from cometmq.model.errors import CodecError
from cometmq.replication.group.history import Row
from cometmq.replication.group.messages import (
    Append,
    AppendAnswer,
    MemberPlace,
    Membership,
    Message,
    Restart,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from cometmq.replication.group.wire import (
    CONTENT_SIZE_MAX,
    GREETING_SIZE_MAX,
    HEAD,
    HEADER_SIZE_MAX,
    GroupFrame,
    GroupFrames,
    decode_message,
    encode_frame,
    encode_message,
)

PLACES = (MemberPlace("n0", 1, "10.0.0.1:40911"), MemberPlace("n3", 4, "[fd00::3]:40911"))
MEMBERS = Membership(("n0", "n1", "n2"), ("n3",), PLACES)
MESSAGES: list[Message] = [
    VoteRequest("n0", 3, 2, 100, is_pre=True),
    VoteRequest("n0", 3, 2, 100, is_forced=True),
    VoteAnswer("n0", 3, is_pre=False, is_granted=True, is_sure=False),
    Append("n0", 3, 17, 100, 100, -1, 90, 5),
    Append("n0", 3, 17, 0, 4, 0, 0, 0, (Row(0, 2), Row(3, 3)), (Row(0, MEMBERS),), b"abcd"),
    Restart("n0", 3, 17, 4096, (Row(10, 1),), (Row(10, MEMBERS),)),
    AppendAnswer("n0", 3, 17, is_matching=False, matched=1, stable=1, run=1 << 41, end=9),
    AppendAnswer("n0", 3, 17, True, 1, 1, 1, 9, (Row(0, 1), Row(7, 2)), is_sure=False),
    TakeOver("n0", 3),
]


def frames(data: bytes, *, is_greeted: bool = True) -> list[GroupFrame]:
    read = GroupFrames()
    read.is_greeted = is_greeted
    return list(read.received(data))


def encoded(message: Message) -> bytes:
    content = message.content if isinstance(message, Append) else None
    return b"".join(encode_message(_bare(message), content or b""))  # type: ignore[arg-type]


def _bare(message: Message) -> Message:
    if not isinstance(message, Append):
        return message
    fields = [getattr(message, name) for name in Append.__slots__ if name != "content"]
    return Append(*fields)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_arrives_as_it_was_sent(message):
    (frame,) = frames(encoded(message))
    found = decode_message(frame, "n0")
    if isinstance(found, Append) and not found.content:
        found = _bare(found)
    assert found == message


def test_frames_arrive_whatever_the_network_makes_of_them():
    data = b"".join(encoded(each) for each in MESSAGES)
    for size in (1, 7, 1000):
        read = GroupFrames()
        read.is_greeted = True
        found = [
            frame
            for start in range(0, len(data), size)
            for frame in read.received(data[start : start + size])
        ]
        assert len(found) == len(MESSAGES)


@pytest.mark.parametrize(
    ("header", "content", "is_greeted"),
    [
        (HEADER_SIZE_MAX + 1, 0, True),
        (0, CONTENT_SIZE_MAX + 1, True),
        (GREETING_SIZE_MAX + 1, 0, False),
        (10, 1, False),
    ],
)
def test_a_frame_that_is_too_large_is_refused_by_its_first_bytes(header, content, is_greeted):
    with pytest.raises(CodecError, match="are allowed"):
        frames(HEAD.pack(header, content), is_greeted=is_greeted)


def changed(message: Message, **fields: object) -> GroupFrame:
    header_size, _ = HEAD.unpack_from(encoded(message))
    header = json.loads(encoded(message)[HEAD.size : HEAD.size + header_size])
    header["message"] |= fields
    content = getattr(message, "content", None) or b""
    return GroupFrame(json.dumps(header).encode(), content)


PART = MESSAGES[4]


def with_places(places: object) -> dict[str, object]:
    return {"memberships": [[0, {"voters": ["n0"], "places": places}]]}


@pytest.mark.parametrize(
    ("message", "fields", "said"),
    [
        (PART, {"sender": "n1"}, "a message of n1 came from n0"),
        (PART, {"end": 5}, "a part of 5 bytes has 4"),
        (PART, {"begin": 9}, "terms of other offsets"),
        (PART, {"terms": []}, "terms of other offsets"),
        (PART, {"terms": [[0, 2], [4, 3]]}, "terms of other offsets"),
        (PART, {"terms": [[0, 2], [0, 3]]}, "must grow"),
        (PART, {"terms": [[0]]}, "arrays of 2 values"),
        (PART, {"terms": {"0": 1}}, "arrays of 2 values"),
        (PART, {"terms": [[0, -2]]}, "must be a number"),
        (PART, {"terms": [[0, True]]}, "must be a number"),
        (PART, {"memberships": [[0, {"voters": []}]]}, "must have voters"),
        (
            PART,
            {"memberships": [[0, {"voters": ["n0"], "learners": list("abcdefghi")}]]},
            "at most 9 members",
        ),
        (PART, {"memberships": [[0, {"voters": ["n" * 65]}]]}, "ids of 64 characters"),
        (PART, with_places([["n0", 1]]), "arrays of 3 values"),
        (PART, with_places([["", 1, "h:1"]]), "the id of a member has 1 to 64"),
        (PART, with_places([["n" * 65, 1, "h:1"]]), "the id of a member has 1 to 64"),
        (PART, with_places([["n0", 1, 7]]), "must have ids and addresses"),
        (PART, with_places([["n0", "1", "h:1"]]), "must be a number"),
        (PART, with_places([["n0", 1, "h:1"], ["n0", 2, "h:2"]]), "different ids"),
        (
            PART,
            with_places([[f"n{each}", each, "h:1"] for each in range(10)]),
            "at most 9 members",
        ),
        (PART, with_places([["n0", 1, "h:0"]]), "an address must be host:port"),
        (PART, {"commit": -1}, "must not be negative"),
        (MESSAGES[0], {"term": "x"}, "must be a number"),
        (MESSAGES[0], {"is_pre": 7}, "must be true or false"),
        (MESSAGES[2], {"is_granted": None}, "is_granted is missing"),
    ],
)
def test_a_message_that_contradicts_itself_is_refused(message, fields, said):
    with pytest.raises(CodecError, match=said):
        decode_message(changed(message, **fields), "n0")


@pytest.mark.parametrize(
    ("header", "said"),
    [(b"{", "no JSON"), (b"[]", "must be an object"), (b"{}", "type is missing")],
)
def test_a_header_that_is_none_is_refused(header, said):
    with pytest.raises(CodecError, match=said):
        frames(HEAD.pack(len(header), 0) + header)


def test_an_unknown_type_is_refused():
    (frame,) = frames(b"".join(encode_frame({"type": "bye"})))
    with pytest.raises(CodecError, match="bye are unknown"):
        decode_message(frame, "n0")
