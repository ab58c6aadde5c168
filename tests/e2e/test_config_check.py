"""`cometmq config check` as a command: statuses, JSON, kinds, and what only the machine can say."""

import json
import shutil
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cometmq.cli.__main__ import app
from tests.support import json_tables
from tests.support.certificates import authority, signed
from tests.support.command_line import run
from tests.support.pages import ROOT
from tests.support.processes import free_port


@pytest.fixture(autouse=True)
def environment(monkeypatch) -> None:
    """The default port of metrics belongs to whoever tests it, and no address comes from the shell."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("COMETMQ_METRICS_PROM_EXPORTER_PORT", "0")


def conf(folder: Path, text: str = "", name: str = "broker.conf") -> Path:
    path = folder / name
    path.write_text(f"listenPort={free_port(beside=(-2, -1, 0, 1))}\n{text}")
    return path


def check(path: Path, *options: str) -> tuple[int, list[dict]]:
    done = CliRunner().invoke(app, ["config", "check", str(path), "--json", *options])
    rows = json.loads(done.stdout) if done.exit_code in (0, 1) else []
    json_tables.check("config check", rows)
    return done.exit_code, rows


def test_statuses_are_those_of_all_commands(tmp_path):
    store = f"storePathRootDir={tmp_path}/store\n"
    assert check(conf(tmp_path, store))[0] == 0
    assert check(conf(tmp_path, f"{store}brokerNames=a\n"))[0] == 1
    assert check(conf(tmp_path, f"{store}brokerRole=SLAVE\n"))[0] == 1
    assert check(tmp_path / "nowhere.conf")[0] == 2
    assert check(tmp_path)[0] == 2
    assert check(conf(tmp_path), "--kind", "consumer")[0] == 2
    assert check(conf(tmp_path, name="some.conf"))[0] == 2
    status, rows = check(conf(tmp_path, "brokerName=\\u12\n"))
    assert (status, len(rows)) == (1, 1)
    assert "not a Java properties file" in rows[0]["text"]


def test_the_table_has_the_worst_first_and_what_to_do(tmp_path):
    path = conf(
        tmp_path,
        f"storePathRootDir={tmp_path}/store\nreplicasPerDiskPartition=2\nlistenPrt=1\nflushDiskType=SYNC\n",
    )
    done = run("config", "check", str(path), nameserver=None)
    lines = done.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == [
        "verdict", "refused", "missing", "unknown", "used", "used", "used"
    ]  # fmt: skip
    assert "did you mean listenPort?" in lines[3]
    assert lines[1].split()[1] == "5"
    assert f"{path} is refused: 1 refused" in done.stderr.decode()


def test_kinds_are_recognised_by_name_or_content_or_named(tmp_path):
    assert (
        check(conf(tmp_path, "kvConfigPath=kv.json\nclusterTest=false\n", "names.conf"))[0] == 0
    )
    broker = conf(
        tmp_path, f"brokerName=b\nstorePathRootDir={tmp_path}/store\n", "b.properties"
    )
    assert check(broker)[0] == 0
    status, rows = check(broker, "--kind", "nameserver")
    assert (status, {row["verdict"] for row in rows}) == (1, {"used", "misplaced"})


def test_ports_that_are_taken_or_the_same_are_named_and_left_free(tmp_path):
    path = conf(tmp_path, f"storePathRootDir={tmp_path}/store\n")
    port = int(path.read_text().splitlines()[0].partition("=")[2])
    with socket.create_server(("127.0.0.1", port)):
        status, rows = check(path)
    assert status == 1
    assert rows[0] | {"text": ""} == {
        "severity": "bad", "verdict": "refused", "key": "listenPort", "value": str(port), "line": 1, "text": "",
    }  # fmt: skip
    assert rows[0]["text"].startswith("the port is taken on ")
    assert check(path)[0] == 0
    with path.open("a") as file:
        file.write(f"haListenPort={port}\nhaAllowedAddresses=127.0.0.1\n")
    assert (
        check(path)[1][0]["text"] == "listenPort is the same port; set them to different ports"
    )


def test_folders_and_stores_that_cannot_be_used_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    _, rows = check(conf(tmp_path, f"storePathRootDir={tmp_path}/file/store\n"))
    assert rows[0]["text"].startswith(f"{tmp_path}/file is not a folder")
    (tmp_path / "raft" / "dledger-n0" / "data").mkdir(parents=True)
    status, rows = check(conf(tmp_path, f"storePathRootDir={tmp_path}/raft\n"))
    assert status == 1
    assert "the log of DLedger" in rows[0]["text"]
    assert [each.name for each in (tmp_path / "raft").iterdir()] == ["dledger-n0"]
    store = tmp_path / "java"
    shutil.copytree(ROOT / "tests" / "golden" / "stores" / "clean" / "store", store)
    status, rows = check(conf(tmp_path, f"storePathRootDir={store}\n"))
    assert status == 1
    assert "set it to the size with which this store was written" in rows[0]["text"]
    assert (
        check(conf(tmp_path, f"storePathRootDir={store}\nmappedFileSizeCommitLog=262144\n"))[0]
        == 0
    )


def test_certificates_are_read(tmp_path):
    cert, key = signed(authority(tmp_path / "tls"), "server")
    text = f"storePathRootDir={tmp_path}/store\ntls.server.certPath={cert}\ntls.server.keyPath={key}\n"
    assert check(conf(tmp_path, text))[0] == 0
    status, rows = check(conf(tmp_path, text.replace(str(key), f"{tmp_path}/no.key")))
    assert (status, rows[0]["severity"]) == (1, "bad")
    assert "no.key" in rows[0]["text"]


def test_secrets_are_never_shown(tmp_path):
    path = conf(
        tmp_path,
        f"storePathRootDir={tmp_path}/store\nauthenticationEnabled=true\nobjectStoreSecretKey=canary-7\n"
        'initAuthenticationUser={"username":"root","password":"canary-8"}\n',
    )
    path.chmod(0o644)
    done = run("config", "check", str(path), nameserver=None)
    assert done.returncode == 1, "other users may read it"
    assert b"run chmod 600" in done.stdout
    assert b"canary" not in done.stdout + done.stderr


def test_users_are_checked_and_not_made(tmp_path):
    text = f"storePathRootDir={tmp_path}/store\nauthenticationEnabled=true\n"
    _, rows = check(conf(tmp_path, text))
    assert "has no Super user" in rows[0]["text"]
    path = conf(
        tmp_path, f'{text}initAuthenticationUser={{"username":"root","password":"x"}}\n'
    )
    path.chmod(0o600)
    assert check(path)[0] == 0
    assert not (tmp_path / "store").exists()
