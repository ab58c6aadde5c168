"""Calls whose answers are recorded: a Java proxy 5.3.3 still answers them so."""

import json

import pytest

from tests.interop.record_grpc import RECORDED, java_proxied
from tests.support import grpc_calls

pytestmark = pytest.mark.timeout(600)  # Maven fetches the proxy the first time.


def test_a_java_proxy_answers_as_it_was_recorded(tmp_path):
    with java_proxied(tmp_path, grpc_calls.BROKER_SETTINGS) as java:
        grpc_calls.prepare(java.nameserver)
        answers = grpc_calls.answers_of(java.grpc)
    recorded = json.loads(RECORDED.read_text())
    assert {name: said for name, said in answers.items() if said != recorded[name]} == {}
