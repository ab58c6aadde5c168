"""Configuration files as people write them: what the check says of each, and that the start agrees."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from cometmq.broker.__main__ import main
from cometmq.cli.config_files import CheckedRow, check_file, kind_of
from tests.support.processes import free_port, wait_until

FOLDER = Path(__file__).parent / "confs"
# Rows that only say what the program uses, or what changes nothing.
QUIET = ("used", "no effect", "differs")


class Expected(NamedTuple):
    """What becomes of a file.

    Attributes:
        rows: Verdict and key of each row with a key that is not in `QUIET`.
        starts: Whether a program starts with it.
        says: Parts of the texts.
    """

    rows: set[tuple[str, str]]
    starts: bool
    says: tuple[str, ...] = ()


BROKERS = {
    "docker-broker.conf": Expected(set(), starts=True),
    "docker-loopback-broker.conf": Expected(
        {("unknown", "autoDeleteTopicEnable"), ("doubtful", "namesrvAddr")},
        starts=True,
        says=("neither CometMQ nor RocketMQ has this setting", "'mq-names.invalid' cannot be"),
    ),
    "compose-broker.conf": Expected(
        {("refused", "brokerIP1"), ("doubtful", "namesrvAddr")}, starts=False
    ),
    "remarks-broker.conf": Expected(
        {
            ("refused", "brokerId"), ("refused", "maxMessageSize"), ("refused", "brokerIP1"),
            ("doubtful", "brokerId"), ("doubtful", "maxMessageSize"),
        },
        starts=False,
        says=("a comment needs a line of its own", "RocketMQ would ignore it and use its default"),
    ),
    "percent-broker.conf": Expected(
        {("refused", "diskMaxUsedSpaceRatio")},
        starts=False,
        says=("must be a whole number from 1 up to 100; RocketMQ would ignore it",),
    ),
    "placeholder-broker.conf": Expected({("refused", "brokerIP1")}, starts=False),
    "stray-line-broker.conf": Expected(
        {("unknown", "disk"), ("doubtful", "namesrvAddr")},
        starts=True,
        says=("names:Port: an address must be host:port",),
    ),
    "commas-broker.conf": Expected(
        {("doubtful", "namesrvAddr")},
        starts=True,
        says=("write 192.0.2.21:9876;192.0.2.22:9876;192.0.2.23:9876",),
    ),
    "dledger-broker.conf": Expected(
        {("refused", "dLegerPeers")},
        starts=False,
        says=("members are separated by ; and not by a comma",),
    ),
    "misspelt-broker.conf": Expected(
        {
            ("unknown", "flushDiskTyp"), ("unknown", "dLedgerGroup"),
            ("unknown", "haSlaveFallbackMaxBytes"), ("doubtful", "storePathRootDir"),
        },
        starts=True,
        says=("did you mean flushDiskType?", "did you mean dLegerGroup?", "in the lines 17, 28"),
    ),
    "slave-broker.conf": Expected(
        {("refused", "brokerRole")}, starts=False, says=("write brokerId=1",)
    ),
    "windows-broker.conf": Expected(
        {("doubtful", "storePathRootDir")}, starts=True, says=("a backslash begins an escape",)
    ),
    "bom-broker.conf": Expected(
        {("unknown", "brokerClusterName")}, starts=True, says=("byte order mark",)
    ),
    "controller-broker.conf": Expected(
        {("refused", "enableControllerMode"), ("refused", "brokerId"), ("refused", "brokerRole")},
        starts=False,
        says=("it is only used by controllers",),
    ),
    "auth-broker.conf": Expected(set(), starts=True),
    "long-broker.conf": Expected(set(), starts=True),
}  # fmt: skip
OTHERS = {
    "namesrv.conf": Expected(set(), starts=True),
    "plain_acl.yml": Expected(set(), starts=True, says=("an address replaces no signature",)),
    "wrong_acl.yml": Expected(
        {("doubtful", "accessKey")},
        starts=False,
        says=(
            "secretKey has 5 characters; it needs more than 6",
            "topicPerms of TopicTest must be one of",
            "with migrateAuthFromV1Enabled=true the start fails: account 'shop admin' cannot",
        ),
    ),
    "tools.yml": Expected(set(), starts=True),
    "rmq-proxy.json": Expected(
        {
            ("unknown", "nameSrvAddr"), ("refused", "enableACL"), ("unknown", "topicQueueConfig"),
        },
        starts=False,
        says=("write aclEnable=true", "did you mean namesrvAddr?"),
    ),
}  # fmt: skip
ALL = BROKERS | OTHERS


@pytest.fixture(autouse=True)
def environment(monkeypatch) -> None:
    """The programs of this module share a machine with other tests, and read no address from its shell."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("COMETMQ_METRICS_PROM_EXPORTER_PORT", "0")
    # Whatever a file says: several log files of 1 GiB would fill a small disk.
    monkeypatch.setenv("COMETMQ_MAPPED_FILE_SIZE_COMMIT_LOG", str(1 << 22))


def conf_of(name: str, folder: Path) -> Path:
    """A file of `FOLDER` in a folder of its own, with free ports and a store there."""
    place = folder / name.partition(".")[0]
    place.mkdir(mode=0o700)
    port = free_port(beside=(-2, -1, 0, 1, 2))
    content = (FOLDER / name).read_bytes()
    given = {"@PORT@": port, "@HAPORT@": port + 2, "@STORE@": place / "store"}
    for word, value in given.items():
        content = content.replace(word.encode(), str(value).encode())
    path = place / name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def checked(path: Path) -> list[CheckedRow]:
    content = path.read_bytes()
    return check_file(path, content, kind_of(path, content, None))


def test_each_file_is_expected_to_be_something():
    assert {each.name for each in FOLDER.iterdir()} == ALL.keys() | {"README.md"}


@pytest.mark.parametrize("name", ALL)
def test_the_check_says_what_becomes_of_each_line(name, tmp_path):
    path, expected = conf_of(name, tmp_path), ALL[name]
    before = sorted(tmp_path.rglob("*"))
    found = checked(path)
    rows = {
        (each.verdict.value, each.key)
        for each in found
        if each.key is not None and each.verdict.value not in QUIET
    }
    # Where this machine would listen, and who would reach it there, is not what the file is for.
    rows -= {("doubtful", "brokerIP1")}
    assert rows == expected.rows
    assert any(each.severity == "bad" for each in found) is not expected.starts
    text = "\n".join(each.text for each in found)
    for part in expected.says:
        assert part in text
    assert sorted(tmp_path.rglob("*")) == before, "nothing is made"


@pytest.mark.parametrize("name", ["long-broker.conf", "namesrv.conf"])
def test_a_file_of_keys_that_rocketmq_has_needs_no_word(name, tmp_path):
    found = checked(conf_of(name, tmp_path))
    assert {each.verdict.value for each in found} <= {"used", "no effect"}


def test_what_is_beyond_ascii_is_shown_as_it_was_written(tmp_path):
    text = "\n".join(
        str(each) for each in checked(conf_of("placeholder-broker.conf", tmp_path))
    )
    assert "请填写本机地址" in text
    (row,) = (
        each
        for each in checked(conf_of("bom-broker.conf", tmp_path))
        if each.verdict.value == "unknown"
    )
    assert (row.key, row.value, row.line) == ("brokerClusterName", "办公室", 1)


@pytest.mark.parametrize("name", BROKERS)
def test_p_ends_as_the_check_does(name, tmp_path, capsys):
    path = conf_of(name, tmp_path)
    status = main(["-c", str(path), "-p"])
    said = capsys.readouterr().err
    assert (status == 0) is BROKERS[name].starts, said
    assert ("The broker cannot start" in said) is not BROKERS[name].starts
    assert not (path.parent / "store").exists()


@contextlib.contextmanager
def running(paths: list[Path]) -> Iterator[dict[str, tuple[subprocess.Popen[bytes], Path]]]:
    """A broker for each file, all at once: process and log by the name of the file."""
    started = {}
    try:
        for path in paths:
            log = path.with_suffix(".log")
            with log.open("wb") as out:
                command = [sys.executable, "-m", "cometmq.broker", "-c", str(path)]
                process = subprocess.Popen(command, stdout=out, stderr=out)
            started[path.name] = process, log
        yield started
    finally:
        for process, _ in started.values():
            process.terminate()
        for process, _ in started.values():
            process.wait(timeout=60)


def has_started_or_ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    return b"boot success" in log.read_bytes() or process.poll() is not None


def test_a_start_agrees_with_the_check(tmp_path):
    paths = [conf_of(name, tmp_path) for name in BROKERS]
    with running(paths) as started:
        for name, (process, log) in started.items():
            wait_until(
                partial(has_started_or_ended, process, log),
                seconds=90,
                what=f"the start with {name}",
            )
            said = log.read_text()
            assert ("boot success" in said) is BROKERS[name].starts, f"{name}: {said}"
            assert ("The broker cannot start" in said) is not BROKERS[name].starts
            assert "Traceback" not in said
        # The check of a file whose broker runs says so, and takes nothing away from it.
        path = next(each for each in paths if each.name == "long-broker.conf")
        found = checked(path)
        assert all(each.severity in ("fine", "note") for each in found)
        assert any("open now, so the ports were not checked" in each.text for each in found)
        assert started[path.name][0].poll() is None
