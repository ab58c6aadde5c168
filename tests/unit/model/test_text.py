"""Words of messages go with the numbers beside them."""

import pytest

from cometmq.model.text import plural


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 changes"), (1, "1 change"), (2, "2 changes"), (1_000, "1000 changes")],
)
def test_one_thing_is_singular(count: int, text: str):
    assert f"{count} {plural(count, 'change')}" == text


def test_other_forms_are_named():
    assert [plural(n, "body", "bodies") for n in (0, 1, 2)] == ["bodies", "body", "bodies"]
    assert [plural(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]
