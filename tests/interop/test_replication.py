"""Masters and slaves of RocketMQ and ours: from the slave's first offset the logs are the same bytes.

Each side is killed in the middle of load, and started again; what `mqadmin haStatus` shows is
tests/interop of a slave's handlers.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import reference
from tests.support import processes
from tests.support.frames import ask
from tests.support.load import send_all
from tests.support.processes import Program, wait_until
from tests.support.replica import copying

GET_BROKER_RUNTIME_INFO = 28
FILE_SIZE = 1 << 20
TOPIC = "Replicated"
# Small files, so that there are several and their blank ends are copied, too.
SETTINGS: dict[str, object] = {"mappedFileSizeCommitLog": FILE_SIZE, "defaultTopicQueueNums": 4}

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def bodies(count: int) -> list[bytes]:
    return [b"%06d" % number + b"x" * (number * 37 % 3_000) for number in range(count)]


def send(address: str, count: int = 600) -> None:
    assert send_all(address, TOPIC, bodies(count)) == [0] * count


def end_of(address: str) -> int:
    """Where the log of a broker ends; one of Java that just started has no answer yet."""
    said = wait_until(
        lambda: ask(address, GET_BROKER_RUNTIME_INFO)[1], seconds=20, what="a broker's numbers"
    )
    return int(json.loads(said)["table"]["commitLogMaxOffset"])


def log_bytes(folder: Path, start: int, end: int) -> bytes:
    """The bytes of a log that lies in files; b"" while it does not go so far."""
    found = b""
    for name in range(start // FILE_SIZE * FILE_SIZE, end, FILE_SIZE):
        path = folder / "store" / "commitlog" / f"{name:020d}"
        if not path.exists():
            return b""
        found += path.read_bytes()
    return found[start % FILE_SIZE : end - start // FILE_SIZE * FILE_SIZE]


def first_offset(folder: Path) -> int:
    names = [path.name for path in (folder / "store" / "commitlog").glob("[0-9]*")]
    return int(min(names)) if names else 0


def wait_equal(master: Program, master_folder: Path, slave_folder: Path) -> None:
    """Wait until the slave has the master's log, byte for byte."""
    end = end_of(master.address)

    def are_equal() -> bool:
        start = first_offset(slave_folder)
        ours = log_bytes(slave_folder, start, end)
        return bool(ours) and ours == log_bytes(master_folder, start, end)

    wait_until(are_equal, seconds=60, what=f"a log of {end} bytes at the slave")


@contextlib.contextmanager
def nameserver(folder: Path) -> Iterator[Program]:
    with processes.nameserver(folder / "nameserver") as names:
        yield names


def test_a_java_slave_copies_our_master_and_survives_every_kill(tmp_path):
    with nameserver(tmp_path) as names:
        folder = tmp_path / "master"
        master = processes.broker(folder, names.address, settings=SETTINGS)
        slave_settings = {**SETTINGS, "brokerId": 1, "brokerRole": "SLAVE"}
        java = reference.broker(tmp_path / "slave", names.address, settings=slave_settings)
        try:
            master.start()
            send(master.address)
            java.start()
            wait_equal(master, folder, tmp_path / "slave")
            assert first_offset(tmp_path / "slave") == 0, "an empty slave gets everything"
            java.kill()
            send(master.address)
            java.start()
            send(master.address)
            master.kill()
            master.start()
            send(master.address)
            wait_equal(master, folder, tmp_path / "slave")
        finally:
            java.kill()
            master.kill()


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_our_slave_copies_a_java_master_and_survives_every_kill(tmp_path, version):
    with nameserver(tmp_path) as names:
        folder = tmp_path / "broker"
        java = reference.broker(folder, names.address, settings=SETTINGS, version=version)
        try:
            java.start()
            reference.wait_registered(names.address)
            send(java.address, 1_500)  # More than a file.
            ha_address = f"127.0.0.1:{java.port + 1}"
            with copying(tmp_path / "slave", ha_address, file_size=FILE_SIZE) as slave:
                wait_equal(java, folder, tmp_path / "slave")
                assert first_offset(tmp_path / "slave") > 0, "Java gives the last file only"
                send(java.address)
                slave.kill()
                slave.wait()
            send(java.address)
            with copying(tmp_path / "slave", ha_address, file_size=FILE_SIZE):
                send(java.address)
                java.kill()
                java.start()
                reference.wait_registered(names.address)
                send(java.address)
                wait_equal(java, folder, tmp_path / "slave")
        finally:
            java.kill()


def test_a_sync_master_of_java_counts_our_slave(tmp_path):
    settings = {
        **SETTINGS,
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": 2,
        "totalReplicas": 2,
    }
    with nameserver(tmp_path) as names:
        java = reference.broker(tmp_path / "broker", names.address, settings=settings)
        try:
            java.start()
            reference.wait_registered(names.address)
            ha_address = f"127.0.0.1:{java.port + 1}"
            with copying(tmp_path / "slave", ha_address, file_size=FILE_SIZE):
                wait_until(
                    lambda: send_all(java.address, TOPIC, [b"body"]) == [0],
                    seconds=60,
                    what="a send that our slave has, too",
                )
                send(java.address)
                wait_equal(java, tmp_path / "broker", tmp_path / "slave")
        finally:
            java.kill()
