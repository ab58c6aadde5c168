"""`cometmq store`, as its users run it: on a store that Java wrote, and on one that was damaged."""

import shutil
import sys
from pathlib import Path

import orjson
import pytest

from tests.golden.test_golden_stores import LEVELS
from tests.support.command_line import run
from tests.support.programs import run_program

STORE = Path(__file__).parents[1] / "golden" / "stores" / "clean" / "store"
NOT_SOUND = 1


def told(*arguments: str | Path, status: int = 0) -> str:
    done = run("store", *map(str, arguments), nameserver=None)
    assert done.returncode == status, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy in which a bit of the body of the record at 246 is flipped."""
    target = tmp_path / "store"
    shutil.copytree(STORE, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    log = target / "commitlog" / "0".zfill(20)
    content = bytearray(log.read_bytes())
    content[246 + 88] ^= 1
    log.write_bytes(content)
    return target


def test_a_store_of_java_is_verified_shown_and_compared():
    assert told("verify", STORE).startswith("sound: 1245 records from 0 to 872454")
    verdict = orjson.loads(told("verify", STORE, "--json"))
    assert (verdict["is_sound"], verdict["index_entries"], verdict["findings"]) == (
        True,
        2359,
        [],
    )
    assert "0 to 872454, 4 files of 262144" in told("stat", STORE)
    numbers = orjson.loads(told("stat", STORE, "--json"))
    assert numbers["index_keys"] == 2359
    assert {"topic": "GoldenOrders", "queue": 0, "first": 0, "next": 101} in numbers["queues"]
    assert told("compare", STORE, STORE).startswith("the same: 26 queues, 1245 messages")


def test_records_are_dumped_as_json_and_in_hexadecimal():
    lines = told("dump", STORE, "--topic", "GoldenPayments", "--queue", "2", "--max", "3")
    records = [orjson.loads(line) for line in lines.splitlines()]
    assert [record["offset"] for record in records] == [0, 1, 2]
    assert {(record["topic"], record["queue"]) for record in records} == {("GoldenPayments", 2)}
    offset = str(records[1]["physical_offset"])
    [same] = told("dump", STORE, "--offset", offset, "--max", "1").splitlines()
    assert orjson.loads(same) == records[1]
    fields = told("dump", STORE, "--offset", offset, "--max", "1", "--hex").splitlines()
    stored = bytes.fromhex("".join(line.split()[-1] for line in fields[1:] if line))
    assert len(stored) == records[1]["size"]
    assert f"{records[1]['size']:08x}" in fields[1]
    assert b"GoldenPayments" in stored
    assert run("store", "dump", str(STORE), "--offset", "7", nameserver=None).returncode == 3


def test_damage_is_told_then_repaired_when_that_is_asked_for(damaged):
    printed = told("verify", damaged, status=NOT_SOUND)
    assert "not sound" in printed
    assert "body CRC" in printed
    assert (
        "Nothing was changed"
        in run("store", "repair", str(damaged), nameserver=None).stderr.decode()
    )
    told("verify", damaged, status=NOT_SOUND)
    plan = orjson.loads(told("repair", damaged, "--json"))
    assert (plan["done"], len(plan["damages"]), plan["records"]) == (False, 1, 1244)
    assert "1 damaged piece wrapped" in told("repair", damaged, "--yes")
    assert told("verify", damaged).startswith("sound: 1245 records")
    assert "1 difference:" in told("compare", STORE, damaged, status=NOT_SOUND)
    found = orjson.loads(told("compare", STORE, damaged, "--json", status=NOT_SOUND))
    assert not found["same"]
    assert found["differences"]
    assert [path.name for path in (damaged / "cut").iterdir()] == [f"{246:020d}.0"]


def test_a_second_archive_begins_at_the_stores_first_record_and_one_that_lacks_some_says_so(
    tmp_path,
):
    root, trial, real = tmp_path / "store", tmp_path / "trial", tmp_path / "real"
    shutil.copytree(STORE, root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    first = told("archive", root, "--to", trial)
    assert told("archive", root, "--to", real, "--raw").split(",")[0] == first.split(",")[0]
    assert told("archive", root, "--to", real, "--raw").startswith("0 rows")
    for path in sorted((root / "commitlog").iterdir())[:1]:
        path.unlink()
    for path in real.glob("topic=*/*/*.parquet"):
        path.unlink()
    shutil.rmtree(trial)
    rows = int(told("archive", root, "--to", trial, "--raw").split(" ")[0].replace(",", ""))
    assert 0 < rows < 1245
    told("restore", trial, tmp_path / "back")
    told("compare", root, tmp_path / "back")
    lost = min(trial.glob("topic=*/*/*.parquet"), key=lambda path: path.name)
    lost.unlink()
    (root / "commitlog" / f"{262_144:020d}").unlink()
    printed = told("archive", root, "--to", trial, "--raw", status=NOT_SOUND)
    assert "is not in this archive, and the log has already deleted it" in printed.replace(
        "\n", " "
    )


def test_a_log_without_a_record_is_an_error_in_one_line_and_not_an_empty_one(damaged, tmp_path):
    for log in (damaged / "commitlog").iterdir():
        log.write_bytes(b"\x5a" * log.stat().st_size)
    first = damaged / "commitlog" / "0".zfill(20)
    for arguments in (
        ("rebuild", damaged),
        ("rebuild", damaged, "--check"),
        ("archive", damaged, "--to", tmp_path / "archive"),
        ("compare", damaged, damaged),
    ):
        done = run("store", *map(str, arguments), nameserver=None)
        assert (done.returncode, done.stdout) == (3, b""), arguments
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith(f"error: {first} at byte 0 (physical offset 0): "), arguments
    assert "262144 bytes; `cometmq store verify`" in told("stat", damaged)
    shown = run("store", "dump", str(damaged), nameserver=None)
    assert (shown.returncode, shown.stdout) == (NOT_SOUND, b"")
    assert b"262144 bytes follow the end of the log" in shown.stderr


def test_damage_in_the_middle_is_a_finding_of_whatever_walks_the_log(damaged, tmp_path):
    log = damaged / "commitlog" / "0".zfill(20)
    content = bytearray(log.read_bytes())
    content[246:260] = bytes(14)
    log.write_bytes(content)
    shown = run("store", "dump", str(damaged), nameserver=None)
    assert (shown.returncode, len(shown.stdout.splitlines())) == (NOT_SOUND, 1244)
    assert f"{log} at 246: " in shown.stderr.decode()
    first = run("store", "dump", str(damaged), "--max", "1", nameserver=None)
    assert (first.returncode, first.stderr) == (0, b""), "the damage was not met"
    where = f"{log} at byte 246 (physical offset 246): "
    for arguments, count in (
        (("archive", damaged, "--to", tmp_path / "archive"), "1,245 rows"),
        (("rebuild", damaged, "--out", tmp_path / "made"), "1,244 queue entries"),
        (("rebuild", damaged), "1,244 queue entries"),
    ):
        said = told(*arguments, status=NOT_SOUND).replace("\n", " ")
        assert where in said, arguments
        assert count in said, arguments


def test_damage_that_both_copies_have_is_a_finding_of_a_comparison(damaged):
    log = damaged / "commitlog" / "0".zfill(20)
    content = bytearray(log.read_bytes())
    content[246:260] = bytes(14)
    log.write_bytes(content)
    where = f"{log} at byte 246 (physical offset 246): "
    said = told("compare", damaged, damaged, status=NOT_SOUND).replace("\n", " ")
    assert f"damaged: A: {where}" in said
    assert f"damaged: B: {where}" in said
    assert "the same beside 2 damaged pieces: 26 queues, 1244 messages" in said
    found = orjson.loads(told("compare", damaged, damaged, "--json", status=NOT_SOUND))
    assert (found["same"], found["differing"], len(found["damages"])) == (True, 0, 2)
    assert found["damages"][0].startswith(f"A: {where}")


def test_what_is_no_store_is_named(tmp_path):
    done = run("store", "verify", str(tmp_path), nameserver=None)
    assert done.returncode == 3
    assert "is not a store" in done.stderr.decode()


def test_a_store_is_rebuilt_archived_and_restored_without_spark(damaged, tmp_path):
    archive, back = tmp_path / "archive", tmp_path / "back"
    assert told("rebuild", STORE, "--out", tmp_path / "made").startswith("1,245 queue entries")
    for name in ("consumequeue", "index"):
        made = sorted(path for path in (tmp_path / "made" / name).rglob("*") if path.is_file())
        java = sorted(path for path in (STORE / name).rglob("*") if path.is_file())
        assert [path.read_bytes() for path in made] == [path.read_bytes() for path in java]
    source = tmp_path / "source"
    shutil.copytree(STORE, source, copy_function=shutil.copyfile)
    told("archive", source, "--to", archive, "--raw")
    assert told("archive", source, "--to", archive, "--raw").startswith("0 rows"), (
        "all is there"
    )
    counts = orjson.loads(told("archive", source, "--to", archive, "--raw", "--json"))["counts"]
    assert counts["rows"] == 0
    assert told("restore", archive, back).startswith("1,245 rows, 4 log files")
    said = orjson.loads(told("restore", archive, tmp_path / "again", "--json"))
    assert (said["counts"]["rows"], said["findings"]) == (1245, [])
    assert told("verify", back).startswith("sound: 1245 records")
    for log in (STORE / "commitlog").iterdir():
        if any(log.read_bytes()):
            assert (back / "commitlog" / log.name).read_bytes() == log.read_bytes()
    assert run("store", "restore", str(archive), str(back), nameserver=None).returncode == 2


def test_a_check_of_queues_changes_nothing_and_finds_what_is_not_as_the_log_says(damaged):
    assert told("rebuild", damaged, "--check", "--topic", "GoldenPayments")
    queue = damaged / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)
    content = bytearray(queue.read_bytes())
    content[40 * 20 + 19] ^= 1
    queue.write_bytes(content)
    found = orjson.loads(told("rebuild", damaged, "--check", "--json", status=NOT_SOUND))
    assert f"consumequeue/GoldenOrders/1/{0:020d}" in [
        each["where"] for each in found["findings"]
    ]
    assert queue.read_bytes() == content
    assert not (damaged / "checked").exists()


def test_records_that_an_archive_lacks_are_findings(tmp_path):
    source, archive = tmp_path / "source", tmp_path / "archive"
    shutil.copytree(STORE, source, copy_function=shutil.copyfile)
    told("archive", source, "--to", archive, "--raw")
    shutil.rmtree(archive / "topic=GoldenOrders")
    said = told("restore", archive, tmp_path / "back", status=NOT_SOUND)
    assert "the archive has no records of it" in said


def test_what_only_looks_needs_no_arrow_and_the_rest_says_that_it_does():
    """With the plain package, which brings neither numpy nor pyarrow."""
    program = (
        "import sys; sys.modules.update(numpy=None, pyarrow=None); "
        "from cometmq.cli.__main__ import main; sys.argv[1:] = {!r}; main()"
    )
    plain = (sys.executable, "-c")
    run_program(*plain, program.format(["store", "verify", str(STORE)]))
    rebuild = run_program(*plain, program.format(["store", "rebuild", str(STORE)]), status=3)
    assert rebuild.stderr.startswith("error: this command needs numpy")
    assert "pip install 'cometmq[arrow]'" in rebuild.stderr


def test_a_log_elsewhere_is_found_by_the_brokers_configuration(tmp_path):
    """Two folders of it, as with multiPath storage; one of them gets no new files."""
    root, new, old = (tmp_path / name for name in ("store", "new", "old"))
    shutil.copytree(STORE, root, copy_function=shutil.copyfile)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / "commitlog").rename(new)
    old.mkdir()
    for path in sorted(new.iterdir())[:2]:
        path.rename(old / path.name)
    conf = tmp_path / "broker.conf"
    levels = " ".join(f"{seconds}s" for seconds in LEVELS)
    conf.write_text(
        f"storePathRootDir={root}\nstorePathCommitLog={new}\nreadOnlyCommitLogStorePaths={old}\n"
        f"messageDelayLevel={levels}\n"
    )
    place = tmp_path / "archive"
    for words in (("verify", root), ("archive", root, "--to", place)):
        lost = run("store", *map(str, words), nameserver=None)
        assert lost.returncode == 3
        assert b"no log file" in lost.stderr
        assert b"elsewhere" in lost.stderr
    assert told("verify", root, "--config", conf).startswith("sound: 1245 records")
    assert told("archive", root, "--to", place, "--config", conf, "--raw").startswith(
        "1,245 rows"
    )
    told("restore", place, tmp_path / "back")
    told("compare", STORE, tmp_path / "back")
