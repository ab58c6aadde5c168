"""Starts that would destroy a store, or open it without a part of it, are refused and touch nothing."""

from pathlib import Path

from cometmq.model.codes import RequestCode
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import Program
from tests.support.programs import run_program
from tests.support.request_fields import word_send_fields

TOPIC = "Kept"


def tree(folder: Path) -> dict[str, bytes]:
    """Each file and folder below a folder with its bytes; large ones by their beginning."""
    found = {}
    for path in folder.rglob("*"):
        found[str(path.relative_to(folder))] = b"/"
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = file.read(1 << 16)
    return found


def filled_store(folder: Path, count: int = 30) -> Path:
    """A store with messages, its broker stopped in order."""
    with processes.broker(folder, "") as program:
        send(program, count)
    return folder / "store"


def send(program: Program, count: int, **more: str) -> None:
    with Stranger(program.address) as peer:
        for number in range(count):
            fields = word_send_fields(
                TOPIC, properties=f"KEYS\x01k{number}\x02", defaultTopicQueueNums=1
            )
            assert peer.ask(RequestCode.SEND_MESSAGE, fields, b"%d" % number).code == 0


def refused(program: Program, *, status: int = 3) -> str:
    """What a program says that does not start; it must end by itself and in one line."""
    done = run_program(*program.command, status=status, seconds=120)
    assert "Traceback" not in done.stderr
    assert "boot success" not in done.stdout
    return done.stderr


def test_a_dledger_store_does_not_start_as_a_plain_master(tmp_path):
    """RocketMQ's own DLedger file is refused, and so is a plain file on a directory of DLedger's."""
    store = filled_store(tmp_path)
    data = store / "dledger-n0" / "data"
    data.mkdir(parents=True)
    (store / "commitlog").rename(tmp_path / "elsewhere")
    (data / "00000000000000000000").write_bytes(bytes(4096))
    before = tree(store)
    settings = {
        "enableDLegerCommitLog": "true", "dLegerGroup": "broker-a", "dLegerSelfId": "n0",
        "dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913",
    }  # fmt: skip
    for conf in (settings, {}):
        said = refused(processes.broker(tmp_path, "", settings=conf), status=3)
        assert "enableDLegerCommitLog" in said
        assert "use RocketMQ" in said
        assert tree(store) == before


def test_a_store_whose_log_is_not_mounted_is_not_begun_anew(tmp_path):
    """With a mistyped storePathCommitLog nothing is wiped, and the right one brings all of it back."""
    store = filled_store(tmp_path)
    disk2 = tmp_path / "disk2"
    disk2.mkdir()
    (store / "commitlog").rename(disk2 / "commitlog")
    before = tree(store)
    missing = tmp_path / "not-mounted" / "commitlog"
    said = refused(processes.broker(tmp_path, "", settings={"storePathCommitLog": missing}))
    assert "storePathCommitLog" in said
    assert str(missing) in said
    assert tree(store) == before
    assert not missing.parent.exists()
    right = {"storePathCommitLog": disk2 / "commitlog"}
    with processes.broker(tmp_path, "", settings=right) as program:
        header, _ = ask(
            program.address, RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}
        )
        assert header["extFields"]["offset"] == "30"


def test_an_empty_broker_that_was_killed_starts_again_with_its_offsets(tmp_path):
    """Offsets alone do not stop a broker of ours that never had a message."""
    program = processes.broker(tmp_path, "").start()
    program.kill()
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"Kept@g":{0:3}}}'
    )
    with program.start():
        pass
