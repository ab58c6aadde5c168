"""What a Java DLedger group committed is served by a plain Java broker and by ours, from the store that was made of it."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cometmq.cli.__main__ import app
from tests.interop import peer, reference
from tests.interop.dledger_group import SETTINGS, TOPIC, stopped_group
from tests.support import processes
from tests.support.processes import Program

pytestmark = [pytest.mark.java, pytest.mark.timeout(480)]


def read_from(folder: Path, names: Program, broker: Program, count: int) -> Counter[bytes]:
    with broker:
        processes.wait_until(
            lambda: broker.address.encode() in reference.route_of(names.address, TOPIC),
            seconds=60,
            what=f"the route to the broker in {folder}",
        )
        return Counter(message.body for message in peer.read(names.address, TOPIC, count))


def test_a_java_broker_and_ours_serve_what_a_dledger_group_has_committed(tmp_path):
    store, sent = stopped_group(tmp_path / "group")
    wanted = Counter(body for body, *_ in sent)
    to = tmp_path / "java" / "store"
    to.parent.mkdir()
    done = CliRunner().invoke(app, ["store", "import-dledger", str(store), "--to", str(to)])
    assert done.exit_code == 0, done.output
    shutil.copytree(to, tmp_path / "ours" / "store")
    for folder, make in (
        (tmp_path / "java", reference.broker),
        (tmp_path / "ours", processes.broker),
    ):
        with processes.nameserver(tmp_path / "names") as names:
            broker = make(folder, names.address, settings=SETTINGS)
            assert read_from(folder, names, broker, len(sent)) == wanted
