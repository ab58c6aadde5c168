"""A Java broker of 5.3.3 that has not counted for a second yet refuses to tell its numbers: our client asks again."""

import json

import pytest

from cometmq import Admin
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused
from tests.support.strange_server import Asked, StrangeServer

NUMBERS = RequestCode.GET_BROKER_RUNTIME_INFO
# As it came from a broker of 5.3.3.
TOO_YOUNG = (
    "java.util.NoSuchElementException, java.util.LinkedList.getLast(LinkedList.java:257)"
)


@pytest.fixture
def server():
    with StrangeServer() as server:
        server.scripts[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda asked: asked.answer(
            body=json.dumps(
                {
                    "brokerAddrTable": {
                        "a": {
                            "cluster": "c",
                            "brokerName": "a",
                            "brokerAddrs": {"0": server.address},
                        }
                    },
                    "clusterAddrTable": {"c": ["a"]},
                }
            ).encode()
        )
        yield server


def refused_at_first(server: StrangeServer, *, times: int, remark: str) -> None:
    def numbers(asked: Asked) -> bytes:
        if server.counts[NUMBERS] <= times:
            return asked.answer(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        return asked.answer(body=b'{"table": {"bootTimestamp": "1700000000000"}}')

    server.scripts[NUMBERS] = numbers


def test_a_broker_that_has_just_started_is_asked_again(server):
    refused_at_first(server, times=2, remark=TOO_YOUNG)
    with Admin(server.address) as admin:
        (state,) = admin.brokers.list()
        assert state.runtime == {"bootTimestamp": "1700000000000"}
        assert state.error is None
    assert server.counts[NUMBERS] == 3


def test_another_refusal_is_told_at_once(server):
    refused_at_first(server, times=2, remark="java.lang.NullPointerException")
    with (
        Admin(server.address) as admin,
        pytest.raises(BrokerRefused, match="NullPointerException"),
    ):
        admin.brokers.runtime("a")
    assert server.counts[NUMBERS] == 1
