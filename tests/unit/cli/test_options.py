"""How options are read from text."""

from datetime import UTC, datetime

import pytest
import typer

from cometmq.cli.options import read_pairs, read_start


def test_properties_are_name_and_value_and_the_value_may_hold_an_equals_sign() -> None:
    assert read_pairs(["a=1", "b=x=y", "c="], option="--property") == {
        "a": "1",
        "b": "x=y",
        "c": "",
    }


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_a_property_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="name=value"):
        read_pairs([pair], option="--property")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1700000000123", 1_700_000_000_123),
        (
            "2026-05-01T12:00:00+00:00",
            int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()) * 1000,
        ),
    ],
)
def test_a_start_is_a_word_or_a_time(text: str, start: str | int) -> None:
    assert read_start(text) == start


@pytest.mark.parametrize("text", ["yesterday", "-5", ""])
def test_what_is_no_start_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest, a time"):
        read_start(text)
