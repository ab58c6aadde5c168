"""A setting or an attribute that asks for what is not there is refused or warned of by name: never silence."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.load import send_all
from tests.support.metrics_page import page
from tests.support.programs import run_program
from tests.support.request_fields import topic_fields

CREATE_TOPIC, INVALID_PARAMETER, SLAVE_NOT_AVAILABLE = 17, 29, 11

REFUSED: tuple[dict[str, object], ...] = (
    {"authorizationEnabled": "true"},
    {"authenticationEnabled": "true", "authenticationProvider": "org.example.Mine"},
    {"brokerRole": "SYNC_MASTER", "totalReplicas": 2, "inSyncReplicas": 3},
    {"storeType": "defaultRocksDB"},
    {"configManagerVersion": "v2"},
    {"timerRocksDBEnable": "true"},
    {"messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore"},
    {"enableControllerMode": "true"},
    {"tls.server.mode": "enforcing"},
)
WARNED: dict[str, object] = {
    "metricsExporterType": "LOG",
    "metricsInDelta": "true",
    "enableRemoteEscape": "true",
    "duplicationEnable": "true",
    "coldCtrStrategyEnable": "true",
    "enableConsumeQueueExt": "true",
    "fetchNamesrvAddrByAddressServer": "true",
    "rejectPullConsumerEnable": "true",
    "configBlackList": "brokerPermission",
}


def run(conf: Path, *flags: str, program: str = "broker") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"cometmq.{program}", "-c", conf, *flags]
    return run_program(*command, status=None)


def test_what_would_break_a_promise_stops_the_start(tmp_path):
    """Where settings are printed (-p), too: nobody shall read there that it holds."""
    for number, wanted in enumerate(REFUSED):
        store = {"storePathRootDir": tmp_path / f"store{number}", "listenPort": 0}
        conf = processes.write_conf(tmp_path / f"{number}.conf", {**store, **wanted})
        done = run(conf, *(["-p"] if number else []))
        key = list(wanted)[-1]
        assert done.returncode == 2, key
        assert f"{key}=" in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("store*"))


def test_what_changes_less_is_warned_of_where_settings_are_printed(tmp_path):
    done = run(processes.write_conf(tmp_path / "broker.conf", WARNED), "-p")
    assert done.returncode == 0
    for key, value in WARNED.items():
        assert re.search(
            rf"{re.escape(f'{key}={value}')}(, \S+=\S+)* ha(s|ve) no effect here: ", done.stderr
        )


def test_what_was_promised_in_silence_is_kept(tmp_path):
    """A master that must have two copies has no good word for one, and the page of metrics is there."""
    port = processes.free_port()
    settings = {
        "brokerRole": "SYNC_MASTER", "totalReplicas": 2, "inSyncReplicas": 2,
        "metricsExporterType": "PROM", "metricsPromExporterPort": port,
    }  # fmt: skip
    with processes.broker(tmp_path, "", settings=settings) as program:
        assert send_all(program.address, "Copied", [b"x"]) == [SLAVE_NOT_AVAILABLE]
        assert "rocketmq_" in page(port)


def test_a_nameserver_that_should_speak_tls_does_not_start_in_the_clear(tmp_path):
    conf = processes.write_conf(tmp_path / "namesrv.conf", {"tls.server.mode": "enforcing"})
    done = run(conf, "-p", program="nameserver")
    assert done.returncode == 2
    assert "tls.server.mode=enforcing" in done.stderr


@pytest.mark.parametrize("attribute", ["cleanup.policy=COMPACTION", "reserve.time=3600000"])
def test_a_topic_that_should_be_kept_otherwise_is_refused(standing, attribute):
    fields = topic_fields("Kept")
    with Stranger(standing.address) as peer:
        refused = peer.ask(CREATE_TOPIC, {**fields, "attributes": f"+{attribute}"})
        assert refused.code == INVALID_PARAMETER
        assert attribute in refused.remark
        assert peer.ask(CREATE_TOPIC, fields).code == 0


def test_topics_of_java_that_should_be_kept_otherwise_are_named_at_the_start(tmp_path):
    attributes = {"cleanup.policy": "COMPACTION", "reserve.time": "3600000"}
    topic = {
        "topicName": "FromJava", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "attributes": attributes,
    }  # fmt: skip
    table = {
        "topicConfigTable": {"FromJava": topic},
        "dataVersion": {"timestamp": 1, "counter": 1, "stateVersion": 0},
    }
    file = tmp_path / "store" / "config" / "topics.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(table))
    with processes.broker(tmp_path, "") as program:
        said = [line for line in program.log.read_text().splitlines() if "FromJava" in line]
    for key, value in attributes.items():
        assert any(f"{key}={value}" in line for line in said), said
