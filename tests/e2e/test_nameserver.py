"""The nameserver as a process: real sockets, requests framed by hand, brokers that die."""

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from urllib.error import HTTPError

import pytest

from tests.support import processes
from tests.support.frames import ask, connect, json_frame, parts_of, read_frame
from tests.support.metrics_page import page
from tests.support.other_machine import OtherMachine
from tests.support.processes import wait_until
from tests.support.programs import run_program

REGISTER, UNREGISTER, ROUTE, CLUSTERS = 103, 104, 105, 106
PUT_KV, GET_KV, DELETE_KV, KV_TABLE = 100, 101, 102, 219
WIPE, ADD_WRITE, ALL_TOPICS, DELETE_TOPIC, CLUSTER_TOPICS = 205, 327, 206, 216, 224
CHANGE_SETTINGS, GET_SETTINGS, DATA_VERSION = 318, 319, 322
CLUSTER = "DefaultCluster"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """One nameserver for the tests that leave it as they found it."""
    folder = tmp_path_factory.mktemp("names")
    with processes.nameserver(folder) as program:
        yield program


def identity(
    broker_name: str = "broker-a", address: str = "127.0.0.1:10911", broker_id: int = 0
):
    return {
        "brokerName": broker_name,
        "brokerAddr": address,
        "clusterName": CLUSTER,
        "brokerId": str(broker_id),
    }


def body_of(*topics: str, counter: int = 1) -> bytes:
    table = {
        name: {
            "attributes": {}, "order": False, "perm": 6, "readQueueNums": 4, "topicName": name,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "writeQueueNums": 4,
        }
        for name in topics
    }  # fmt: skip
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    return json.dumps({"topicConfigSerializeWrapper": wrapper}).encode()


@contextmanager
def broker_at(program: processes.Program, *topics: str, **who):
    """A broker that registered and keeps its connection open; gives that connection."""
    with connect(program.address) as connection:
        fields = {**identity(**who), "haServerAddr": "127.0.0.1:10912"}
        connection.sendall(json_frame(REGISTER, fields, body_of(*topics)))
        answer = json.loads(parts_of(read_frame(connection))[1])
        assert answer["code"] == 0, answer
        yield connection


def code_of(program: processes.Program, code: int, fields=None, body: bytes = b"") -> int:
    return ask(program.address, code, fields, body)[0]["code"]


def route_code(program: processes.Program, topic: str) -> int:
    return code_of(program, ROUTE, {"topic": topic})


def test_a_client_finds_the_topics_of_a_registered_broker(names):
    with broker_at(names, "A", "B"):
        header, body = ask(names.address, ROUTE, {"topic": "A"})
        assert header["code"] == 0
        assert json.loads(body)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
        clusters = ask(names.address, CLUSTERS)[1]
        assert b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}' in clusters
        assert sorted(json.loads(ask(names.address, ALL_TOPICS)[1])["topicList"]) == ["A", "B"]
        listed = ask(names.address, CLUSTER_TOPICS, {"cluster": CLUSTER})[1]
        assert sorted(json.loads(listed)["topicList"]) == ["A", "B"]


def test_old_clients_get_the_form_that_they_understand(names):
    old = json_frame(ROUTE, {"topic": "A"}).replace(b'"version": 479', b'"version": 317')
    asks = json_frame(ROUTE, {"topic": "A", "acceptStandardJsonOnly": "true"}).replace(
        b'"version": 479', b'"version": 317'
    )
    with broker_at(names, "A", "B") as connection:
        connection.sendall(old + asks)
        assert b'"brokerAddrs":{0:' in parts_of(read_frame(connection))[2]
        assert b'"brokerAddrs":{"0":' in parts_of(read_frame(connection))[2]


def test_a_broker_whose_connection_closes_is_gone_at_once(names):
    with broker_at(names, "A", "B"):
        assert route_code(names, "A") == 0
    wait_until(lambda: route_code(names, "A") == 17, seconds=30, what="the route gone")


def test_a_broker_that_unregisters_is_gone_at_once(names):
    with broker_at(names, "A", "B"):
        assert code_of(names, UNREGISTER, identity()) == 0
        assert route_code(names, "A") == 17


def test_a_broker_learns_whether_it_must_register_again(names):
    same = b'{"counter":1,"stateVersion":0,"timestamp":1}'
    with broker_at(names, "A", "B"):
        header, body = ask(names.address, DATA_VERSION, identity(), same)
        assert (header["extFields"]["changed"], json.loads(body)) == ("false", json.loads(same))
        header, _ = ask(names.address, DATA_VERSION, identity(), same.replace(b"1,", b"2,", 1))
        assert header["extFields"]["changed"] == "true"
    header, body = ask(names.address, DATA_VERSION, identity("stranger", "h:1"), same)
    assert (header["extFields"]["changed"], body) == ("true", b"")


def test_write_permission_is_wiped_and_given_back(names):
    def perm() -> int:
        return json.loads(ask(names.address, ROUTE, {"topic": "A"})[1])["queueDatas"][0]["perm"]

    with broker_at(names, "A", "B"):
        header, _ = ask(names.address, WIPE, {"brokerName": "broker-a"})
        assert (header["extFields"], perm()) == ({"wipeTopicCount": "2"}, 4)
        header, _ = ask(names.address, ADD_WRITE, {"brokerName": "broker-a"})
        assert (header["extFields"], perm()) == ({"addTopicCount": "2"}, 6)


def test_a_deleted_topic_has_no_route(names):
    with broker_at(names, "A", "B"):
        assert code_of(names, DELETE_TOPIC, {"topic": "A", "clusterName": "nowhere"}) == 0
        assert route_code(names, "A") == 0
        assert code_of(names, DELETE_TOPIC, {"topic": "A"}) == 0
        assert (route_code(names, "A"), route_code(names, "B")) == (17, 0)


def test_key_value_configuration_survives_a_kill(tmp_path):
    key = {"namespace": "n", "key": "k"}
    with processes.nameserver(tmp_path) as program:
        assert code_of(program, GET_KV, key) == 22
        assert code_of(program, KV_TABLE, key) == 22
        assert code_of(program, PUT_KV, {**key, "value": "v"}) == 0
        program.kill()
    with processes.nameserver(tmp_path) as program:
        header, _ = ask(program.address, GET_KV, key)
        assert header["extFields"] == {"value": "v"}
        assert ask(program.address, KV_TABLE, key)[1] == b'{"table":{"k":"v"}}'
        assert code_of(program, DELETE_KV, key) == 0
        assert code_of(program, GET_KV, key) == 22


def test_the_order_configuration_goes_to_brokers_and_into_routes(tmp_path):
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "A", "value": "broker-a:4"}
    with processes.nameserver(tmp_path, orderMessageEnable="true") as program:
        assert code_of(program, PUT_KV, order) == 0
        header, body = ask(
            program.address, REGISTER, {**identity(), "haServerAddr": ""}, body_of("A", "B")
        )
        assert (header["code"], body) == (0, b'{"table":{"A":"broker-a:4"}}')
        with broker_at(program, "A", "B"):
            route = json.loads(ask(program.address, ROUTE, {"topic": "A"})[1])
            assert route["orderTopicConf"] == "broker-a:4"


def test_two_nameservers_know_nothing_of_each_other(tmp_path):
    with ExitStack() as stack:
        first = stack.enter_context(processes.nameserver(tmp_path / "first"))
        second = stack.enter_context(processes.nameserver(tmp_path / "second"))
        stack.enter_context(broker_at(first, "A", "B"))
        assert (route_code(first, "A"), route_code(second, "A")) == (0, 17)


def test_a_broker_that_falls_silent_is_dropped_and_disconnected(tmp_path):
    with processes.nameserver(tmp_path, scanNotActiveBrokerInterval=100) as program:
        with connect(program.address) as connection:
            fields = {
                **identity(),
                "haServerAddr": "",
                "heartbeatTimeoutMillis": "300",
            }
            connection.sendall(json_frame(REGISTER, fields, body_of("A", "B")))
            read_frame(connection)
            assert connection.recv(1) == b""
        assert route_code(program, "A") == 17


def test_settings_on_the_allow_list_change_over_the_wire_and_last(tmp_path):
    with processes.nameserver(tmp_path) as program:
        assert b"enableAllTopicList=true\n" in ask(program.address, GET_SETTINGS)[1]
        assert code_of(program, CHANGE_SETTINGS, body=b"enableAllTopicList=false\n") == 0
        header, _ = ask(program.address, ALL_TOPICS)
        assert (header["code"], header["remark"][:7]) == (1, "disable")
        for refused in (
            b"kvConfigPath=/x",
            b"bindAddress=0.0.0.0",
            b"configBlackList=",
            b"no=1",
        ):
            header, _ = ask(program.address, CHANGE_SETTINGS, body=refused)
            assert header["code"] == 16
            assert header["remark"].startswith("Can not update config in black list.")
        assert code_of(program, CHANGE_SETTINGS, body=b"enableTopicList=perhaps") == 29
    with processes.nameserver(tmp_path, port=program.port) as program:
        assert code_of(program, ALL_TOPICS) == 1


def test_routes_wait_for_brokers_where_that_is_asked(tmp_path):
    with processes.nameserver(tmp_path, needWaitForService="true") as program:
        header, _ = ask(program.address, ROUTE, {"topic": "A"})
        assert header["code"] == 1
        assert header["remark"].startswith("name server not ready")


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer", "remark"),
    [
        (ROUTE, {}, b"", 29, "RouteRequest: the field topic is missing"),
        (ROUTE, {"topic": "../x"}, b"", 17, "No topic route info in name server for the topic"),
        (REGISTER, {}, b"", 29, "the field brokerName is missing"),
        (
            REGISTER,
            {**identity(), "brokerId": "x"},
            b"",
            29,
            "brokerId has the wrong value 'x'",
        ),
        (REGISTER, {**identity(), "bodyCrc32": "1"}, b"{}", 1, "crc32 not match"),
        (REGISTER, identity(), b"\x00garbage", 29, "REGISTER_BROKER: registration: "),
        (REGISTER, identity(), body_of("A"), 1, "register broker failed"),
        (REGISTER, {**identity(), "compressed": "true"}, b"{}", 29, "REGISTER_BROKER"),
        (217, {"topic": "T"}, b'{"queueDatas":7}', 29, "queueDatas must be a list"),
        (DATA_VERSION, identity(), b"[]", 29, "data version must be an object"),
        (CLUSTER_TOPICS, {}, b"", 29, "the field cluster is missing"),
        (PUT_KV, {"namespace": "n"}, b"", 29, "the field key is missing"),
        (CHANGE_SETTINGS, {}, b"a=\\u12", 1, "string2Properties error"),
        (9999, {}, b"", 3, " request type 9999 not supported"),
    ],
)
def test_bad_input_is_answered_by_name(names, code, fields, body, answer, remark):
    header, _ = ask(names.address, code, fields, body)
    assert header["code"] == answer
    assert remark in header["remark"]
    assert "Traceback" not in header["remark"]


def test_a_peer_from_beyond_this_machine_reads_but_changes_nothing(tmp_path):
    with (
        OtherMachine() as other,
        processes.nameserver(tmp_path, bindAddress="0.0.0.0") as program,
    ):
        address = f"{other.here}:{program.port}"
        assert other.call(lambda: ask(address, CLUSTERS))[0]["code"] == 0
        value = {"namespace": "n", "key": "k", "value": "v"}
        header, _ = other.call(lambda: ask(address, PUT_KV, value))
        assert header["code"] == 16
        assert "access control is off" in header["remark"]
        for code in (DELETE_KV, WIPE, ADD_WRITE, DELETE_TOPIC, CHANGE_SETTINGS):
            assert other.call(partial(ask, address, code))[0]["code"] == 16
        assert "Listening on 0.0.0.0" in program.last_lines()


def test_it_says_where_it_listens_and_ends_in_order(tmp_path):
    command = [sys.executable, "-m", "cometmq.nameserver", "--listen-port", "0"]
    command += ["--kv-config-path", str(tmp_path / "kv.json")]
    for ending in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(
                r"The Name Server boot success\. serializeType=JSON, address (127\.0\.0\.1:\d+)\n",
                line,
            )
            assert found, line
            with connect(found[1]):
                process.send_signal(ending)
                began = time.monotonic()
                assert process.wait(10) == 0
                assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["-p"], 0, "listenPort=9876\n"),
        (["--listen-prt", "1"], 2, "did you mean --listen-port?"),
        (["-c", "nowhere.conf"], 2, "nowhere.conf: No such file or directory"),
        (["--listen-port", "x"], 2, "listenPort=x must be a whole number"),
    ],
)
def test_its_command_line_answers_in_one_line(arguments, status, said):
    command = [sys.executable, "-m", "cometmq.nameserver", *arguments]
    done = run_program(*command, status=status)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(names):
    command = [sys.executable, "-m", "cometmq.nameserver", "--listen-port", str(names.port)]
    done = run_program(*command, status=3)
    assert f"cannot listen on 127.0.0.1:{names.port}" in done.stderr


def test_metrics_are_served_where_a_port_is_named(tmp_path):
    port = processes.free_port()
    with processes.nameserver(tmp_path, metricsPromExporterPort=port):
        assert 'rocketmq_nameserver_topics{node_type="nameserver"} 0' in page(port)
        assert page(port, "/healthz") == "alive: 0 brokers are registered\n"
        assert page(port, "/readyz") == "ready: routes are answered\n"


def test_while_it_waits_for_brokers_it_is_not_ready(tmp_path):
    port = processes.free_port()
    with processes.nameserver(
        tmp_path, metricsPromExporterPort=port, needWaitForService="true"
    ):
        with pytest.raises(HTTPError, match="503") as refused:
            page(port, "/readyz")
        assert b"more for brokers to register (needWaitForService)" in refused.value.read()
        refused.value.close()
