"""Properties files: which line sets which key, with every kind of line end and with bytes that are no Latin-1."""

from __future__ import annotations

import pytest

from cometmq.codec.java_properties import decode_java_properties, property_lines
from cometmq.model.errors import CodecError


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_is_counted_as_an_editor_does(end: str):
    # 酅 has a byte that Latin-1 takes for the end of a line.
    lines = ["# 酅 a comment", "a = 1", "", "b=x\\", "   y", "a: 2", "!c", "d 酅"]
    content = end.join(lines).encode()
    assert property_lines(content) == {
        "a": [(2, "1"), (6, "2")], "b": [(4, "xy")], "d": [(8, "酅".encode().decode("latin-1"))],
    }  # fmt: skip
    assert decode_java_properties(content)["a"] == "2"


def test_a_wrong_escape_is_refused():
    with pytest.raises(CodecError, match="not a Java properties file"):
        property_lines(b"a=\\u12")
