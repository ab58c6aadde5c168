"""What RocketMQ has and CometMQ has not yet is refused by name, by whatever asks for it: never silence, never half of it.

docs/compatibility.md names these tests in its rows.
"""

import json
import socket

import pytest

from cometmq.model.codes import RequestCode, ResponseCode
from tests.attacks.stranger import Stranger
from tests.support.processes import wait_until
from tests.support.request_fields import pull_fields

# Numbers of RequestCode of RocketMQ 5.3.3 (and 4.9.8 where it removed them).
BROKER_CODES = {
    "acl-1": (54,),  # It would tell secrets; gone from 4.9.8, too.
    "filter-classes": (301, 302),
    "controller": (1008,),
}


@pytest.fixture(scope="module")
def broker(standing):
    """What is refused changes nothing, so one broker is enough."""
    return standing


@pytest.mark.parametrize("feature", BROKER_CODES)
def test_requests_to_a_broker_are_refused_by_number(broker, feature):
    with Stranger(broker.address) as stranger:
        for code in BROKER_CODES[feature]:
            refused = stranger.ask(code)
            assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert f"{code} not supported" in refused.remark


@pytest.mark.parametrize(
    ("code", "answer", "words"),
    [
        (354, ResponseCode.SYSTEM_ERROR, "not in RocksDB"),
        (355, ResponseCode.SYSTEM_ERROR, "already stores topics, groups and offsets as JSON"),
        (902, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not a BrokerContainer"),
        (903, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not a BrokerContainer"),
        (1007, ResponseCode.SYSTEM_ERROR, "only for controllerMode"),
    ],
)
def test_what_cannot_be_here_says_why(broker, code, answer, words):
    with Stranger(broker.address) as stranger:
        refused = stranger.ask(code)
    assert refused.code == answer
    assert words in refused.remark


def test_requests_to_a_controller_are_refused_by_number(nameserver):
    with Stranger(nameserver.address) as stranger:
        for code in range(1001, 1014):
            refused = stranger.ask(code)
            assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert f"{code} not supported" in refused.remark


def test_a_pull_through_a_filter_class_is_refused_by_name(broker):
    wanted = pull_fields(
        "TBW102", maxMsgNums=1, subscription="org.example.Filter", expressionType="CLASS"
    )
    with Stranger(broker.address) as stranger:
        refused = stranger.ask(RequestCode.PULL_MESSAGE, wanted)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "CLASS" in refused.remark


def test_a_retry_policy_of_a_groups_own_is_refused_by_name(broker):
    group = {"groupName": "Patient", "groupRetryPolicy": {"type": "EXPONENTIAL"}}
    with Stranger(broker.address) as stranger:
        refused = stranger.ask(200, body=json.dumps(group).encode())
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "EXPONENTIAL" in refused.remark
        group["groupRetryPolicy"] = {"type": "CUSTOMIZED"}
        assert stranger.ask(200, body=json.dumps(group).encode()).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("speaks", "hello"),
    [
        ("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(190)),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)),
    ],
)
@pytest.mark.parametrize("target", ["broker", "nameserver"])
def test_who_speaks_another_protocol_is_refused_and_the_log_names_it(
    request, target, speaks, hello
):
    program = request.getfixturevalue(target)
    with socket.create_connection(("127.0.0.1", program.port), timeout=10) as peer:
        peer.sendall(hello)
        assert peer.recv(1) == b""
    wait_until(
        lambda: speaks in program.log.read_text(), seconds=10, what=f"a line on {speaks}"
    )
