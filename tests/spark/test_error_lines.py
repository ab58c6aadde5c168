"""Each error that a user of jobs can make is one line: what, which, and what now; no trace of Java's or Python's."""

import re
from collections.abc import Iterator

import pytest

from cometmq import Admin, Message, Producer
from cometmq.embedded import Embedded
from cometmq.model.exit_status import ExitStatus
from cometmq.model.flags import PERM_READ, PERM_WRITE
from cometmq.spark.jobs.error_text import is_usage, message_of
from tests.spark.conftest import load, save
from tests.support import jobs_in_a_row
from tests.support.big_store import make_big_store
from tests.support.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRACE = re.compile(r"Traceback|Exception in|^\s+at |\.scala|\.java:", re.MULTILINE)
USE, FAILED = ExitStatus.WRONG_USE, ExitStatus.FAILED

# The command, its status, and what the line says. In braces: what the test makes.
LINES = {
    "missing topic": (
        "stats --topic nowhere -n {ns}",
        FAILED,
        r"the nameserver {ns} has no route of topic 'nowhere'; create it \(cometmq topic create\)",
    ),
    "missing topic of a stream": (
        "table --topic nowhere -n {ns} --schema {schema} --to {folder}/t1",
        FAILED,
        r"the nameserver {ns} has no route of topic 'nowhere'; create it \(cometmq topic create\)",
    ),
    "unknown group's dead letters": (
        "dlq replay nobody -n {ns} --state {folder}/state",
        FAILED,
        r"group 'nobody' has no dead letters in this cluster; `cometmq dlq list` shows the groups that have",
    ),
    "dead nameserver": (
        "stats --topic there -n {dead}",
        FAILED,
        r"cannot connect to {dead}: .*; is it running there\?",
    ),
    "no schema": (
        "table --topic there -n {ns} --schema n --to {folder}/t2",
        USE,
        r"--schema 'n' is neither an existing file nor columns such as 'id BIGINT, name STRING'",
    ),
    "place not writable": (
        "stats --topic there -n {ns} --to {folder}/file",
        USE,
        r"{folder}/file cannot be written to: .*; name a folder in which this user may write",
    ),
    "place unknown": (
        "stats --topic there -n {ns} --to ftp://host/x",
        USE,
        r"'ftp://host/x' is not a folder that can be opened: .*; name a path, or a URI such as",
    ),
    "no archive": (
        "stats --archive {folder}/none",
        USE,
        r"--archive {folder}/none: this folder has no archive of messages; name the folder that `pipeline archive --to` wrote",
    ),
    "no store": (
        "verify --store {folder}/none",
        FAILED,
        r"{folder}/none/commitlog has no log file, so {folder}/none is not a store; name storePathRootDir",
    ),
    "damaged store": (
        "stats --store {store}",
        FAILED,
        r"{store}/commitlog/0+ at byte \d+ .*FAILFAST: PERMISSIVE continues",
    ),
    "column that is not there": (
        "stats --topic there -n {ns} --where nn=1",
        USE,
        r"\[UNRESOLVED_COLUMN.WITH_SUGGESTION\] .* `nn` cannot be resolved. Did you mean .*`\]\.$",
    ),
    "wrong type in SQL": (
        "stats --topic there -n {ns} --where body+1",
        USE,
        r'\[DATATYPE_MISMATCH.*\] Cannot resolve "\(body \+ 1\)" .*\("BINARY" and "INT"\)\.$',
    ),
    "function that is not there": (
        "stats --topic there -n {ns} --where lengths(body)>1",
        USE,
        r"\[UNRESOLVED_ROUTINE\] .*`lengths`",
    ),
    "key that is no column": (
        "cdc --topic there -n {ns} --schema {schema} --key x --to {folder}/cdc",
        USE,
        r"--key: the schema has no column 'x'; known names are n",
    ),
    "wrong setting of Spark": (
        "stats --topic there -n {ns} --conf spark.sql.shuffle.partitions=x",
        USE,
        r"\[INVALID_CONF_VALUE.* \"spark.sql.shuffle.partitions\" is invalid",
    ),
    "no Avro schema": (
        "table --topic there -n {ns} --format avro --schema {folder}/none.avsc --to {folder}/t",
        USE,
        r"--schema is neither an existing file nor a valid Avro schema: ",
    ),
    "files where a Delta table would be": (
        "table --topic there -n {ns} --schema {schema} --to {folder}/files --table-format delta",
        USE,
        r"{folder}/files has part-0.parquet and no Delta table: name another folder",
    ),
    "a Delta table where files would be": (
        "cdc --topic there -n {ns} --schema {schema} --key n --to {folder}/delta",
        USE,
        r"{folder}/delta is a Delta table: add --table-format delta, or use another folder",
    ),
    "mirror of a topic that nobody may read": (
        "mirror --source {ns} --target {other} --topics unread --state {folder}/mirror",
        USE,
        r"--source {ns}: topic 'unread' has no readable queue there; give it read queues and the read permission \(`comet",
    ),
    "mirror to a topic that nobody may write": (
        "mirror --source {ns} --target {other} --topics there --state {folder}/mirror",
        USE,
        r"--target {other}: topic 'there' has no queue there that is writable and readable; give it queues and both permissions",
    ),
    "empty state": (
        "replay --topic there -n {ns} --to-topic t --state=",
        USE,
        r"--state is empty: Folder for manifest and checkpoint\.$",
    ),
    "empty place": (
        "table --topic there -n {ns} --schema {schema} --to=",
        USE,
        r"--to is empty: ",
    ),
    "a file in the way of the manifest": (
        "stats --topic there -n {ns} --to {folder}/taken",
        USE,
        r"{folder}/taken cannot be written to: .*; name a folder in which this user may write",
    ),
    "a file for a store": (
        "stats --store {folder}/file",
        FAILED,
        r"{folder}/file/commitlog has no log file, so {folder}/file is not a store; name storePathRootDir",
    ),
    "an archive without files": (
        "stats --archive {folder}/bare",
        USE,
        r"--archive {folder}/bare: the archive has no files",
    ),
    "an archive's file that is none": (
        "stats --archive {folder}/garbage",
        FAILED,
        r"{folder}/garbage/topic=x/a.parquet is not a Parquet file \(.*\): archive again into another folder, or remove this file",
    ),
    "an archive's file that is none, read by Spark": (
        "replay --archive {folder}/garbage -n {ns} --to-topic t --state {folder}/garbage-state",
        FAILED,
        r"\[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER\] .*{folder}/garbage/topic=x/a.parquet",
    ),
    "a broker that is not there": (
        "verify --topic there --against there -n {ns} --broker nobody",
        USE,
        r"--broker nobody: this broker has no queue of there; broker-a has",
    ),
    "a store in the way of new queues": (
        "rebuild-index --store {store} --out {store}",
        USE,
        r"--out {store} is a store, whose queue files would be removed: name a new directory",
    ),
    "no separator": (
        "table --topic there -n {ns} --format csv --separator= --schema {schema} --to {folder}/t9",
        USE,
        r"--separator '': it must be the separator of the values, such as , or ;",
    ),
    "a time beyond Python's": (
        "sql SELECT(timestamp_seconds(253402300800*9))FROM(messages) --topic there -n {ns}",
        USE,
        r"the result has a time outside Python's range \(.*\): convert it to text with CAST\(… AS STRING\)",
    ),
    "SQL that fails on a row": (
        "sql SELECT(raise_error('no'))FROM(messages) --topic there -n {ns}",
        FAILED,
        r"\[USER_RAISED_EXCEPTION\] no$",
    ),
}


@pytest.fixture(scope="module")
def other() -> Iterator[Embedded]:
    with Embedded() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def made(cluster, other, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "file").write_text("no folder")
    (folder / "schema").write_text("n INT")
    (folder / "files").mkdir()
    (folder / "files" / "part-0.parquet").write_bytes(b"")
    (folder / "delta" / "_delta_log").mkdir(parents=True)
    (folder / "taken").mkdir()
    (folder / "taken" / "_jobs").write_text("no folder")
    (folder / "bare" / "topic=x").mkdir(parents=True)
    (folder / "garbage" / "topic=x").mkdir(parents=True)
    (folder / "garbage" / "topic=x" / "a.parquet").write_text("garbage")
    store = folder / "store"
    make_big_store(store, 300, body_size=100, filling=b"x")
    log = next((store / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    content[5000:5400] = b"z" * 400
    log.write_bytes(content)
    with Producer(cluster.nameserver) as producer:
        producer.send(Message("there", b'{"n": 1}'))
    with Admin(cluster.nameserver) as here, Admin(other.nameserver) as there:
        here.topics.create("unread", perm=PERM_WRITE)
        there.topics.create("there", perm=PERM_READ)
    return {
        "ns": cluster.nameserver,
        "other": other.nameserver,
        "dead": f"127.0.0.1:{free_port()}",
        "folder": str(folder),
        "schema": str(folder / "schema"),
        "store": str(store),
    }


@pytest.fixture(scope="module")
def told(made) -> dict[str, tuple[int, str]]:
    """What each command ended with, and wrote."""
    more = ["--progress", "none", "--master", "local[2]"]
    commands = [command.format(**made).split() + more for command, _, _ in LINES.values()]
    return dict(zip(LINES, jobs_in_a_row.said(commands), strict=True))


@pytest.mark.parametrize("case", LINES)
def test_an_error_of_a_job_is_one_line(case, made, told):
    _, status, line = LINES[case]
    found, text = told[case]
    assert found == status, text
    assert not TRACE.search(text)
    known = {name: re.escape(value) for name, value in made.items()}
    for name, value in known.items():
        line = line.replace(f"{{{name}}}", value)
    assert re.search(f"^error: {line}", text), text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 1}}'}, r"startingOffsets.*TOPIC"),
        ({"startingOffsets": "[1]"}, r"startingOffsets"),
        ({"startingOffsets": '{"TOPIC": {"embedded": {"99": 1}}}'}, r"startingOffsets|99"),
        ({"subscribe": "nowhere"}, r"no route of topic 'nowhere'; create it"),
    ],
)
def test_a_read_that_cannot_be_says_so_in_one_line(spark, cluster, topic, send, options, line):
    send(0, 1)
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    with pytest.raises(Exception, match=r".") as raised:
        load(spark, cluster, topic, **given).count()
    text = message_of(raised.value)
    assert re.search(line.replace("TOPIC", topic), text), text
    assert not TRACE.search(text)
    assert "\n" not in text


def test_a_column_of_a_wrong_type_is_named_with_the_type_that_it_must_have(
    spark, cluster, topic
):
    rows = spark.range(3).selectExpr("id AS body")
    with pytest.raises(Exception, match=r".") as raised:
        save(rows, cluster, topic)
    text = message_of(raised.value)
    assert re.search(r"column 'body'.*bigint", text), text
    assert is_usage(raised.value)
    assert not TRACE.search(text)
