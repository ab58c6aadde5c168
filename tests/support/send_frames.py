"""Frames of sends in every form that a peer may give them, from what official clients write to what nobody does."""

import json
import struct
from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.request_fields import LETTERS

KEY = "7F0000010000000118B4AAC200000001"


class Sent(NamedTuple):
    """A send as values."""

    code: int
    flag: int
    opaque: int
    fields: dict[str, str]
    body: bytes


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NAMES = st.one_of(
    st.sampled_from([
        "UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "TRAN_MSG", "POP_CK", "TIMER_DELAY_MS", "XTAGS",
        "INNER_MULTI_DISPATCH", "XUNIQ_KEY", "NODELAY", "XWAIT", "a_b", "CLUSTER", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS",
        "MSG_REGION", "TRACE_ON", "INNER_NUM", "RETRY_TOPIC", "__SHARDINGKEY",
    ]),
    TEXTS,
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ["true", "false", "0", KEY, "TagA", "a b", "k1  k2", "é", "日本", "💥", ""]
    ),
    TEXTS,
)


def block_of(pairs: list[tuple[str, str]], end: str) -> str:
    """A block of properties, as clients join it or nearly."""
    return "\2".join(f"{name}\1{value}" for name, value in pairs) + (end if pairs else "")


_PLAIN_PAIRS = st.lists(
    st.one_of(
        *[st.tuples(st.sampled_from(["KEYS", "color", "n"]), st.sampled_from(["k1 k2", "é", "x_y"]))] * 4,
        st.tuples(st.just("DELAY"), st.sampled_from(["1", "1", "3", "3", "18", "19", "0", "-1", "03", "x"])),
        st.tuples(st.sampled_from(["REAL_TOPIC", "REAL_QID", "NODELAY"]), st.just("1")),
    ),
    max_size=2,
)  # fmt: skip
BLOCKS = st.one_of(
    st.builds(
        lambda before, key, tag, behind: block_of(
            [*before, ("UNIQ_KEY", key), ("TAGS", tag), ("WAIT", "true"), *behind], "\2"
        ),
        _PLAIN_PAIRS,
        st.sampled_from([KEY, "A1", "a-b", "é"]),
        st.sampled_from(["TagA", "B", "日本"]),
        _PLAIN_PAIRS,
    ),
    st.builds(
        lambda before, behind, end: block_of([*before, ("UNIQ_KEY", KEY), *behind], end),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
        st.sampled_from(["\2", "\2", "", "\2\2"]),
    ),
    st.text(st.sampled_from("\1\2aUNIQ_KEYTAGSDL\0é"), max_size=20),
)
NUMBERS = st.one_of(
    st.just("0"),
    st.integers(-3, 9).map(str),
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        [
            "",
            " 1",
            "+1",
            "01",
            "1_0",
            "1.5",
            "x",
            "\u0661",
            "-0",
            "1700000000000",
            "2147483648",
            "9" * 18,
        ]
    ),
)
FIELDS = st.fixed_dictionaries(
    {
        "a": st.just("producers"),
        "b": st.sampled_from(
            ["Orders", "Orders", "Bills", "T" * 100, "%RETRY%GID_orders", "Nobody", "é", ""]
        ),
        "e": st.one_of(st.sampled_from(["0", "1", "2"]), NUMBERS),
        "f": st.sampled_from(["0", "0", "0", "0", "1", "00", ""]),
        "g": st.one_of(st.just("1700000000000"), NUMBERS),
        "h": st.one_of(st.just("0"), NUMBERS),
        "i": BLOCKS,
    },
    optional={
        "c": st.sampled_from(["TBW102", ""]),
        "d": st.one_of(st.just("4"), NUMBERS),
        "j": st.one_of(st.just("0"), NUMBERS),
        "k": st.sampled_from(["true", "false", "false", "maybe", ""]),
        "l": st.one_of(st.just("16"), NUMBERS),
        "m": st.sampled_from(["false", "false", "true", "FALSE", ""]),
        "n": st.sampled_from(["broker-a", "é"]),
        "AccessKey": st.just("me"),
    },
)
ANY = st.builds(
    Sent,
    st.sampled_from([310, 310, 310, 10, 34, 320]),
    st.sampled_from([0, 0, 0, 0, 2, 1, -1]),
    st.one_of(st.integers(0, 99), st.integers(-(1 << 31), (1 << 31) - 1)),
    FIELDS,
    st.one_of(st.binary(min_size=1, max_size=12), st.binary(max_size=1)),
)
_PLAIN_FIELDS = {
    "a": "producers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
# Of a field by its letter: it is as in another send; "-" and the letter: it is missing.
_ONE_THING = st.sampled_from([
    *[""] * 9, "b", "e", "g", "h", "i", "i", "j", "m", "d", "k", "l", *(f"-{letter}" for letter in "abcdefghijkm"),
])  # fmt: skip


def _nearly(fields: dict[str, str], other: dict[str, str], thing: str) -> dict[str, str]:
    """The fields of a plain send, of which one is another or missing."""
    fields = _PLAIN_FIELDS | fields
    if thing.startswith("-"):
        return {name: value for name, value in fields.items() if name != thing[1:]}
    return fields | ({thing: other[thing]} if thing in other else {})


# One thing of a plain send is another, at most.
NEARLY_PLAIN = st.builds(
    lambda queue_id, block, opaque, flag, body, any_, thing: Sent(
        310, flag, opaque, _nearly({"e": queue_id, "i": block}, any_, thing), body
    ),
    st.sampled_from(["0", "1", "2"]),
    st.sampled_from([
        f"UNIQ_KEY\1{KEY}\2WAIT\1true\2TAGS\1TagA\2", f"KEYS\1k1 k2\2UNIQ_KEY\1{KEY}\2", "UNIQ_KEY\1A1\2n\1é\2",
        f"TAGS\1日本\2UNIQ_KEY\1{KEY}\2", f"UNIQ_KEY\1{KEY}\2n\0011\2WAIT\1true\2n\0012\2",
    ]),
    st.integers(0, 1 << 20),
    st.sampled_from([0, 0, 0, 2]),
    st.binary(min_size=1, max_size=12),
    FIELDS,
    _ONE_THING,
)  # fmt: skip
# The fields of SEND_MESSAGE are words.
WORDS = {letter: word for word, letter in LETTERS.items()}


def in_words(sent: Sent) -> Sent:
    """A send as SEND_MESSAGE, with what has no word under its letter."""
    return sent._replace(
        code=10, fields={WORDS.get(name, name): value for name, value in sent.fields.items()}
    )


IN_WORDS = st.builds(in_words, st.one_of(NEARLY_PLAIN, NEARLY_PLAIN, ANY))


def item_of(body: bytes, flag: int, block: str, odd: tuple[int, int, int]) -> bytes:
    """A message of a batch; `odd` is added to its size, its body's and that of its properties."""
    own = block.encode()
    size = 22 + len(body) + len(own)
    head = struct.pack(">iIIii", size + odd[0], 0, 0, flag, len(body) + odd[1])
    return head + body + struct.pack(">H", len(own) + odd[2]) + own


_ODD = st.one_of(
    *[st.just((0, 0, 0))] * 24,
    st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([0, 0, 1, -1, 40_000])).map(
        lambda odd: (odd[0], odd[1], max(odd[2], 0))
    ),
    st.sampled_from([(1 << 30, 0, 0), (-100, 0, 0), (0, -100, 0), (0, 1 << 30, 0)]),
)  # fmt: skip
# As official clients write them, mostly: own ids or none, tags and keys, with and without the last separator.
_ITEM_BLOCKS = st.one_of(
    st.sampled_from([
        f"UNIQ_KEY\1{KEY}\2WAIT\1true\2TAGS\1TagA\2", f"KEYS\1k1 k2\2UNIQ_KEY\1{KEY}\2", "n\1é\2TAGS\1日本\2",
        "", "", "KEYS\1only\2", f"UNIQ_KEY\1{KEY}", "TAGS\1B",
    ]),
    st.sampled_from([
        "WAIT\1false\2", "DELAY\0012\2", "DELAY\0010\2", "TIMER_DELAY_SEC\0013\2", "TRAN_MSG\1true\2", "TAGS\1a\2TAGS\1b\2",
        "\2\2", "n\1", f"UNIQ_KEY\1{KEY}\2UNIQ_KEY\1B\2", "n\1a\1b\2", "UNIQ_KEY\1a-b\2", "n\1\0\2",
    ]),
    BLOCKS,
)  # fmt: skip
_PLAIN_ITEM_BLOCKS = st.sampled_from([
    f"UNIQ_KEY\1{KEY}\2WAIT\1true\2TAGS\1TagA\2", f"KEYS\1k1 k2\2UNIQ_KEY\1{KEY}\2", "n\1é\2", "", "TAGS\1B",
])  # fmt: skip


def _items(
    blocks: st.SearchStrategy[str], odd: st.SearchStrategy[tuple[int, int, int]]
) -> st.SearchStrategy[bytes]:
    item = st.builds(item_of, st.binary(max_size=12), st.sampled_from([0, 7, -1]), blocks, odd)
    return st.lists(item, max_size=4).map(b"".join)


_BATCH_BODIES = st.one_of(
    _items(_PLAIN_ITEM_BLOCKS, st.just((0, 0, 0))),
    _items(_PLAIN_ITEM_BLOCKS, st.just((0, 0, 0))),
    _items(_ITEM_BLOCKS, _ODD),
    st.builds(lambda body, cut: body[: len(body) - cut], _items(_PLAIN_ITEM_BLOCKS, _ODD), st.integers(1, 30)),
    st.binary(max_size=30),
)  # fmt: skip
_BATCH_BLOCKS = st.sampled_from([
    f"WAIT\1true\2UNIQ_KEY\1{KEY}\2", f"WAIT\1true\2UNIQ_KEY\1{KEY}\2", "WAIT\1true\2", "", "KEYS\1k3\2", "n\1é\2", "n\0011\2n\0012\2",
])  # fmt: skip
# One thing of a plain batch is another, at most, but for its messages.
BATCHES = st.builds(
    lambda queue_id, block, opaque, flag, body, any_, thing, says: Sent(
        320, flag, opaque, _nearly({"e": queue_id, "i": block, "m": says}, any_, thing), body
    ),
    st.sampled_from(["0", "1", "2"]),
    _BATCH_BLOCKS,
    st.integers(0, 1 << 20),
    st.sampled_from([0, 0, 0, 2]),
    _BATCH_BODIES,
    FIELDS,
    _ONE_THING,
    st.sampled_from(["true", "true", "false"]),
)  # fmt: skip
SENDS = st.one_of(NEARLY_PLAIN, NEARLY_PLAIN, NEARLY_PLAIN, BATCHES, BATCHES, IN_WORDS, ANY)
# As official clients write it; with characters as they are; binary; otherwise in a way that JSON allows.
FORMS = st.sampled_from(
    ["json", "json", "json", "raw", "binary", "binary", "wide", "escaped", "twice", "more", "remark", "order"]
)  # fmt: skip


def frame_of(sent: Sent, form: str) -> bytes:
    """The frame of a send in one of the forms."""
    kind, header = (1, _binary(sent)) if form == "binary" else (0, _json(sent, form))
    size = len(header)
    return struct.pack(">iI", 4 + size + len(sent.body), kind << 24 | size) + header + sent.body


def _json(sent: Sent, form: str) -> bytes:
    code, flag, opaque, fields, _ = sent
    head = {
        "code": code,
        "extFields": fields,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
    }
    head |= {"serializeTypeCurrentRPC": "JSON", "version": 453}
    if form == "remark":
        head["remark"] = "words"
    if form == "order":
        head["extFields"] = dict(reversed(fields.items()))
        head = dict(reversed(head.items()))
    separators = (", ", ": ") if form == "wide" else (",", ":")
    text = json.dumps(head, separators=separators, ensure_ascii=form != "raw")
    if form == "escaped":
        text = text.replace('"b":', '"\\u0062":').replace("Orders", "Order\\u0073")
    if form == "twice":
        text = text.replace('"extFields":{', '"extFields":{"e":"1",', 1)
    if form == "more":
        text = text.replace('"extFields":{', '"extFields":{"x":"y","more":"fields",', 1)
    return text.encode("utf-8", "surrogatepass")


def _binary(sent: Sent) -> bytes:
    code, flag, opaque, fields, _ = sent
    packed = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in fields.items()
    )  # fmt: skip
    return struct.pack(">hbhiiii", code, 0, 453, opaque, flag, 0, len(packed)) + packed
