"""Calls to our proxy are answered as a Java proxy 5.3.3 answers them, but for the differences of tests/golden/grpc/ours.json."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq.embedded import Embedded
from tests.support import grpc_calls

_FOLDER = Path(__file__).parent.parent / "golden" / "grpc"
JAVA: dict[str, Any] = json.loads((_FOLDER / "java-5.3.3.json").read_text())
# A difference, why it is one, and the answers to all calls that have it.
DIFFERENT: list[dict[str, Any]] = json.loads((_FOLDER / "ours.json").read_text())
OURS = {name: said for each in DIFFERENT for name, said in each["answers"].items()}


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Any]]:
    with Embedded(grpc_port=0, settings=grpc_calls.BROKER_SETTINGS) as cluster:
        grpc_calls.prepare(cluster.nameserver)
        yield grpc_calls.answers_of(cluster.grpc_address)


@pytest.mark.parametrize("name", grpc_calls.CALLS)
def test_a_call_is_answered_as_by_java_or_differs_on_purpose(answers, name):
    assert answers[name] == OURS.get(name, JAVA[name])


def test_methods_that_are_not_served_are_refused(answers):
    for name in ("SyncLiteSubscription", "service Admin"):
        assert answers[name] == [{"grpc": "UNIMPLEMENTED", "text": ""}]


def test_every_difference_is_one():
    assert JAVA.keys() == grpc_calls.CALLS.keys()
    assert [name for name, said in OURS.items() if said == JAVA[name]] == []
    assert all(each["why"] for each in DIFFERENT)
