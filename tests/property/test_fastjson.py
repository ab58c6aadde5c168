"""For all values: what fastjson's writer writes its reader reads; any text ends in a typed error."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.fastjson import FrozenObject, JavaList, dumps, loads
from cometmq.model.errors import CodecError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)
# "$ref" means something else, and None members are left out: neither comes back as it went.
OBJECT_KEYS = st.dictionaries(TEXT.filter("$ref".__ne__), SCALARS, max_size=2).map(FrozenObject)
KEYS = TEXT.filter("$ref".__ne__) | st.integers(-(1 << 63), (1 << 63) - 1) | OBJECT_KEYS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner | st.none(), max_size=4)
        | st.lists(inner, max_size=4).map(JavaList)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=15,
)
PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", ",", '"', "'", "0", "-1", "1.5", "a", "true", "null", " ", "\\u00e9",
     "/*", "*/", "//", "\n", '"a"', '{"$ref":"$"}', '{"$ref":"$.a[0]"}', '{"$ref":".."}', "{0:1}"]
)  # fmt: skip


@given(VALUES, st.booleans(), st.booleans())
def test_what_is_written_is_read(value, pretty, sort_keys):
    written = dumps(value, pretty=pretty, sort_keys=sort_keys)
    assert loads(written) == value
    assert dumps(loads(written), sort_keys=True) == dumps(value, sort_keys=True)


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_a_value_or_a_codec_error(text):
    with contextlib.suppress(CodecError):
        loads(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_codec_error(content):
    with contextlib.suppress(CodecError):
        loads(content)
