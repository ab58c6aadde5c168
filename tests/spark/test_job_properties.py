"""Every job against a plain reading of its topic: random bodies, names and folders, a change midway, and a kill.

What a message says is in the result, or the message is in `_bad`, or the job refuses by a typed error. A run dies at a
random write of its manifest; of one job a process dies by SIGKILL at a random moment. Then the same command goes on.

COMETMQ_JOB_SEEDS=0-19 tries more than one scenario of each job; COMETMQ_JOB_KILLS=1 lets each step of every job die, the
first by SIGKILL.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

from bench.kafka import kafka as real_kafka
from bench.kafka import spark_jars
from cometmq import (
    Admin,
    ConsumeFrom,
    DeadLetter,
    Message,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    offline,
)
from cometmq.embedded import Embedded
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.offline.place import read_path
from cometmq.spark import read_delta
from cometmq.spark.jobs import (
    archive,
    cdc,
    compact,
    dlq,
    kafka,
    mirror,
    rebuild,
    replay,
    sql,
    stats,
    table,
    trace,
    verify,
)
from cometmq.spark.jobs.manifest import FOLDER
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.target import TableFormat
from tests.interop.reference import QUICK_START
from tests.spark.test_job_tables import People, newest_rows, people_in
from tests.support.job_forms import AvroForm, CsvForm, Form, JsonForm, ProtobufForm
from tests.support.job_worlds import column_names, folder, quoted, read_topic, send
from tests.support.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
_FIRST, _, _LAST = os.environ.get("COMETMQ_JOB_SEEDS", "0").partition("-")
SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)
IS_EACH_KILLED = bool(os.environ.get("COMETMQ_JOB_KILLS"))
SECONDS_MAX = 150.0
PROGRAM = """
import pickle, sys
from cometmq.spark import session
job, options = pickle.load(open(sys.argv[1], "rb"))
job(session("dies", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}), options)
"""


@dataclass
class World:
    """What a scenario happens in."""

    spark: Any
    cluster: Embedded
    topic: str
    tmp_path: Path
    chosen: Random
    kafka: str = ""

    @property
    def place(self) -> dict[str, Any]:
        return {"nameserver": self.cluster.nameserver, "topic": self.topic, "progress": "none"}

    def folder(self, without: str = "") -> str:
        return str(self.tmp_path / folder(self.chosen, without) / "out")


# --- deaths


class Killed(OSError):
    """A run ends in the middle."""


def die_here(monkeypatch: pytest.MonkeyPatch, chosen: Random, run: Callable[[], Any]) -> None:
    """Let a run die before or behind a random write of its manifest; a dead one writes nothing."""
    real, left, is_before = Run.save, [chosen.randint(1, 6)], chosen.random() < 0.5

    def save(this: Run) -> None:
        left[0] -= 1
        if left[0] > 0 or (left[0] == 0 and not is_before):
            real(this)
        if left[0] <= 0:
            raise Killed("the power is gone")

    def run_and_die() -> None:
        run()
        raise Killed("the power is gone behind it")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save", save)
        with pytest.raises(Exception, match="the power is gone"):
            run_and_die()


def die_in_a_process(world: World, job: Callable[..., Any], options: Any, place: str) -> None:
    """Run a job in a process of its own that is killed at a random moment behind its first manifest."""
    given = world.tmp_path / "given"
    given.write_bytes(pickle.dumps((job, options)))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, given], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    jobs = Path(place) / FOLDER
    try:
        wait_until(
            lambda: process.poll() is not None or any(jobs.glob("*.json")),
            seconds=SECONDS_MAX, what="a manifest",
        )  # fmt: skip
        sleep(world.chosen.random() * 3)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    assert any(jobs.glob("*.json")), errors.decode()[-2000:]


# --- scenarios: each yields a run at a time, as (job, options, folder of `_jobs`, what holds behind it)

Check = Callable[[Any], None]
Step = tuple[Callable[..., Any], Any, str, Check]


def refused(world: World, job: Callable[..., Any], options: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        job(world.spark, options)


def tables(
    world: World, table_format: TableFormat, make: Callable[[Random, Path], Form]
) -> Iterator[Step]:
    """Bodies as a table; a column more midway."""
    form = make(world.chosen, world.tmp_path)
    to = world.folder("[]^|\\" if table_format == "delta" else "")
    given = table.TableOptions(
        to=to,
        table_format=table_format,
        batch_rows=25,
        **form.options(wide=False),
        **world.place,
    )
    if given.format in ("json", "csv"):
        refuses_names(world, given, form.names[:-1])
    rows, bad = Counter[str](), Counter[bytes]()

    def more_bodies(*, wide: bool) -> None:
        bodies = [form.body(wide=wide) for _ in range(40)]
        send(world.cluster, [Message(world.topic, body) for body, _ in bodies])
        for body, row in bodies:
            if row is None:
                bad[body] += 1
            else:
                rows[repr(plain([*row, *[None] * (len(form.names) - len(row))]))] += 1

    def check(report: Any) -> None:
        assert rows_in(world, given, form.names) == rows
        assert report.counts["bad"] == bad.total()
        if bad:
            kept = world.spark.read.parquet(f"{read_path(to)}/_bad").collect()
            assert Counter(bytes(row.body) for row in kept) == bad

    more_bodies(wide=False)
    yield table.run, given, to, check
    more_bodies(wide=True)
    wide = replace(given, **form.options(wide=True))
    yield table.run, wide, to, check
    for other in (replace(wide, where="queueId >= 0"), replace(wide, since="2020-01-01T00:00")):
        refused(world, table.run, other, "would be in it twice")
    refused(world, table.run, given, "columns can only be added")


def refuses_names(world: World, given: table.TableOptions, names: list[str]) -> None:
    """A column's name that appears twice, or that is ours, is refused by name."""
    twice = [name.swapcase() for name in names if name.swapcase().lower() == name.lower()]
    for name in twice[:1]:
        schema = f"{given.schema}, {quoted(name)} INT"
        refused(world, table.run, replace(given, schema=schema), "appears twice")
    refused(world, table.run, replace(given, schema=f"{given.schema}, _MSGID INT"), "_MSGID")


def rows_in(world: World, given: table.TableOptions, names: list[str]) -> Counter[str]:
    """The rows of a table; it may not have the last columns yet."""
    if given.table_format == "delta":
        found = read_delta(world.spark, given.to)
    else:
        reader = world.spark.read.option("mergeSchema", "true")
        found = reader.parquet(read_path(given.to))
    there = [name for name in names if name in found.columns]
    more = [None] * (len(names) - len(there))
    rows = found.select(*map(quoted, there)).collect()
    return Counter(repr(plain([*(row[name] for name in there), *more])) for row in rows)


def plain(value: Any) -> Any:
    """A value of Spark, or of a plain reading, in the one form of both."""
    if isinstance(value, list):
        return [*map(plain, value)]
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, bytearray):
        return bytes(value)
    return (value + 0).normalize() if isinstance(value, Decimal) else value


def changes(world: World, form: TableFormat) -> Iterator[Step]:
    """Changes of a table of people; a column more and another topic midway."""
    chosen = world.chosen
    key, value, more = column_names(chosen, 3)
    people = People(chosen, key, value)
    given = cdc.CdcOptions(
        schema=f"{quoted(key)} BIGINT, {quoted(value)} DECIMAL(20,2)", key=key, table_format=form, batch_rows=20,
        to=world.folder("[]^|\\" if form == "delta" else ""), **world.place,
    )  # fmt: skip
    if "," in key or key != key.strip():
        refused(world, cdc.run, given, "--key: the schema has no column")
        return
    before = 0

    def check(report: Any) -> None:
        assert people_in(world.spark, given, report, people) == people.alive
        assert report.counts["bad"] == people.bad - before

    send(world.cluster, [Message(world.topic, body) for body in people.bodies(30)])
    yield cdc.run, given, given.to, check
    before, other = people.bad, f"{world.topic}-2"
    send(world.cluster, [Message(other, body) for body in people.bodies(15)])
    wider = replace(given, topic=other, schema=f"{given.schema}, {quoted(more)} STRING")
    yield cdc.run, wider, given.to, check


def body(chosen: Random) -> bytes:
    """Any bytes; none at all, too."""
    return chosen.choice(
        (
            b"",
            b"\xff\x00\x01\x02",
            "größe 日本 😀".encode(),
            chosen.randbytes(chosen.randint(1, 5000)),
        )
    )


def messages(world: World, count: int, topic: str = "", keys: int = 5) -> list[Message]:
    """Messages of any kind."""
    chosen = world.chosen
    return [
        Message(
            topic or world.topic, body(chosen), tag=chosen.choice((None, "a", "größe", "日")),
            keys=chosen.choice(((), f"k{chosen.randrange(keys)}", f"ä{chosen.randrange(keys)}")),
            properties={f"p{n}": chosen.choice(("0", "x y", "日'\"\\", "1")) for n in range(chosen.randrange(3))},
            flag=chosen.choice((0, 7, -1)),
        )
        for _ in range(count)
    ]  # fmt: skip


def content(message: StoredMessage) -> Any:
    """What a copy of a message has of it."""
    return message.message_id, message.body, message.flag, users(message.properties)


def compactions(world: World) -> Iterator[Step]:
    """The last of each key; another condition midway."""
    keep = world.chosen.choice((1, 2, 3))
    given = compact.CompactOptions(
        to=world.folder(), keep_last=keep, batch_rows=20, **world.place
    )

    def check(report: Any) -> None:
        wanted: dict[str, list[Any]] = {}
        for each in read_topic(world.cluster, world.topic):
            if key := each.properties.get("KEYS"):
                kept = [*wanted.get(key, []), (each.message_id, each.body)][-keep:]
                wanted[key] = kept if each.body else []
        rows = newest_rows(world.spark, given.to, report)
        found: dict[str, list[Any]] = {}
        for row in sorted(rows, key=lambda each: each.queueOffset):
            found.setdefault(row["keys"], []).append((row.msgId, bytes(row.body)))
        assert found == {key: each for key, each in wanted.items() if each}

    send(world.cluster, messages(world, 30))
    yield compact.run, given, given.to, check
    send(world.cluster, messages(world, 15))
    yield compact.run, replace(given, where="queueOffset >= 25"), given.to, check


def replays(world: World) -> Iterator[Step]:
    """Messages into another topic, once each."""
    goal = f"{world.topic}-again"
    given = replay.ReplayOptions(
        to_topic=goal, state=world.folder(), batch_rows=20, **world.place
    )

    def check(report: Any) -> None:
        there = read_topic(world.cluster, world.topic)
        copies = read_topic(world.cluster, goal)
        assert sorted(origins(copies)) == sorted(places(there))
        assert report.counts["rows"] == len(there)

    for count in (30, 15):
        send(world.cluster, messages(world, count), queues=3)
        yield replay.run, given, given.state, check


LETTERS: tuple[tuple[str, Callable[[StoredMessage], bool]], ...] = (
    ("queueOffset % 2 = 0", lambda letter: letter.queue_offset % 2 == 0),
    ("length(body) > 9", lambda letter: len(letter.body) > 9),
    ("tags = 'größe'", lambda letter: letter.properties.get("TAGS") == "größe"),
    ("properties['p0'] = 'x y'", lambda letter: letter.properties.get("p0") == "x y"),
)


def dead_letters(world: World) -> Iterator[Step]:
    """Dead letters where they came from: those of a condition, then all; each once."""
    group = f"of-{world.topic}"
    letters = refused_by(world, group, 30)
    where, is_meant = world.chosen.choice(LETTERS)
    given = dlq.ReplayDeadOptions(
        group=group, where=where, state=world.folder(), batch_rows=20, nameserver=world.cluster.nameserver,
        progress="none",
    )  # fmt: skip

    def check(report: Any, wanted: list[StoredMessage], before: int) -> None:
        copies = [
            m for m in read_topic(world.cluster, world.topic) if "REPLAY_OF" in m.properties
        ]
        assert sorted(origins(copies)) == sorted(places(wanted))
        assert report.counts.get("rows", 0) == len(wanted) - before

    some = [*filter(is_meant, letters)]
    yield dlq.replay_dead, given, given.state, partial(check, wanted=some, before=0)
    rest = partial(check, wanted=letters, before=len(some))
    yield dlq.replay_dead, replace(given, where=""), given.state, rest


def refused_by(world: World, group: str, count: int) -> list[StoredMessage]:
    """The dead letters of a group that wants none of a topic's messages."""
    sent, dead = messages(world, count), f"%DLQ%{group}"
    send(world.cluster, sent, queues=3)

    def refuse(_message: StoredMessage) -> None:
        raise DeadLetter("nobody wants it")

    nameserver, settings = (
        world.cluster.nameserver,
        PushConsumerSettings(consume_from=ConsumeFrom.FIRST),
    )
    with PushConsumer(
        nameserver, group=group, subscriptions=[world.topic], listener=refuse, settings=settings
    ):
        wait_until(
            lambda: is_there(world, dead) and len(read_topic(world.cluster, dead)) == count,
            seconds=60, what="the dead letters",
        )  # fmt: skip
    letters = read_topic(world.cluster, dead)
    there = read_topic(world.cluster, world.topic)
    assert sorted(map(content, letters)) == sorted(map(content, there))
    return letters


def is_there(world: World, topic: str) -> bool:
    """Whether the cluster has a topic."""
    with Admin(world.cluster.nameserver) as admin:
        return topic in admin.topics.list()


def places(those: list[StoredMessage]) -> list[tuple[Any, str]]:
    """Messages, and where each is."""
    return [
        (content(m), f"{m.topic}:{m.queue.broker_name}:{m.queue.queue_id}:{m.queue_offset}")
        for m in those
    ]


def origins(copies: list[StoredMessage]) -> list[tuple[Any, str]]:
    """Copies, and where each says that it was."""
    return [(content(m), m.properties["REPLAY_OF"]) for m in copies]


def mirrors(world: World) -> Iterator[Step]:
    """A topic in another cluster: each queue in its order, and a map of the offsets."""
    with Embedded() as other:
        given = mirror.MirrorOptions(
            source=world.cluster.nameserver, target=other.nameserver, topics=world.topic, batch_rows=20,
            state=world.folder(), progress="none",
        )  # fmt: skip

        def check(report: Any) -> None:
            here, there = (
                {
                    (m.queue.queue_id, m.queue_offset): content(m)
                    for m in read_topic(cluster, world.topic)
                }
                for cluster in (world.cluster, other)
            )
            assert there == here
            for row in world.spark.read.parquet(f"{read_path(given.state)}/offsets").collect():
                source, target = (
                    (row.sourceQueue, row.sourceOffset),
                    (row.targetQueue, row.targetOffset),
                )
                assert there[target] == here[source]
            assert report.counts["rows"] == len(here)

        for count in (30, 15):
            send(world.cluster, messages(world, count), queues=3)
            yield mirror.run, given, given.state, check


def archives_of_topics(world: World) -> Iterator[Step]:
    """The messages of a topic, each in one file."""
    given = archive.ArchiveOptions(to=world.folder(), **world.place)

    def check(report: Any) -> None:
        assert archived(world, given.to) == sorted(
            map(content, read_topic(world.cluster, world.topic))
        )
        assert not report.findings

    for count in (50, 20):
        send(world.cluster, messages(world, count), queues=3)
        yield archive.archive, given, given.to, check


def archived(world: World, to: str) -> list[Any]:
    """What an archive has of the topic."""
    rows = world.spark.read.parquet(f"{read_path(to)}/topic={world.topic}").collect()
    return sorted((row.msgId, bytes(row.body), row.flag, users(row.properties)) for row in rows)


def stores(world: World) -> Iterator[Step]:
    """A store's archive, a store of it, its queues made anew, and what is verified of each."""
    live, to = world.tmp_path / "live", world.folder()
    with Embedded(live) as cluster:
        given = archive.ArchiveOptions(
            store=str(live / "store"), to=to, raw=True, progress="none"
        )

        def check(report: Any) -> None:
            assert archived(world, to) == sorted(map(content, read_topic(cluster, world.topic)))
            assert not report.findings

        for count in (50, 20):
            send(cluster, messages(world, count), queues=3)
            yield archive.archive, given, to, check
        wanted = sorted(map(content, read_topic(cluster, world.topic)))
    yield from restores(world, to, live / "store", wanted)


def restores(world: World, to: str, before: Path, wanted: list[Any]) -> Iterator[Step]:
    """A store out of an archive; then its queues anew, and it beside the one that was archived."""
    again = Path(world.folder()) / "again"

    def is_whole(report: Any) -> None:
        assert not report.findings
        found = offline.read(again, topics=[world.topic]).read_all().to_pylist()
        copies = sorted((row["msgId"], row["body"], row["flag"]) for row in found)
        assert copies == [each[:3] for each in wanted]

    def is_sound(report: Any) -> None:
        assert (report.status, report.findings) == (ExitStatus.WELL, [])
        assert queue_files(again) == queues

    restored = archive.RestoreOptions(archive=to, to=str(again), progress="none")
    yield archive.restore, restored, str(again.parent), is_whole
    queues = queue_files(again)
    rebuilt = rebuild.RebuildOptions(store=str(again), progress="none")
    yield rebuild.run, rebuilt, str(again), is_sound
    both = verify.VerifyOptions(store=str(again), against=str(before), progress="none")
    yield verify.run, both, "", is_sound


def queue_files(store: Path) -> dict[str, bytes]:
    """The queue files of a store."""
    paths = store.glob("consumequeue/*/*/*")
    return {str(path.relative_to(store)): path.read_bytes() for path in paths}


def counts(world: World) -> Iterator[Step]:
    """Counts by tag and key; the same by SQL."""
    for count in (50, 20):
        send(world.cluster, messages(world, count), queues=3)
        there = read_topic(world.cluster, world.topic)
        wanted = Counter((m.properties.get("TAGS"), m.properties.get("KEYS")) for m in there)

        def check(report: Any, wanted: Counter[Any] = wanted) -> None:
            assert {tuple(row[:2]): row[2] for row in report.rows} == wanted

        to = world.folder()
        yield (
            stats.run,
            stats.StatsOptions(by="tag,key", to=f"{to}/{count}", **world.place),
            f"{to}/{count}",
            check,
        )
        query = "SELECT tags, keys, count(*) FROM messages GROUP BY tags, keys"
        check(sql.run(world.spark, sql.SqlOptions(query=query, **world.place)))


def traces(world: World) -> Iterator[Step]:
    """Records of sends between what is none."""
    chosen = world.chosen
    for number in range(2):
        wanted: Counter[tuple[str, bool]] = Counter()
        topic, bodies = f"{world.topic}-{number}", list[bytes]()
        for place in range(40):
            group, is_well = chosen.choice(("g", "größe", "a b")), chosen.random() < 0.7
            fields = ("Pub", str(1_700_000_000_000 + place), "region", group, "orders", f"id{place}", "tag", "key",
                      "host", "9", str(chosen.randrange(99)), "0", f"offset{place}", str(is_well).lower())  # fmt: skip
            if chosen.random() < 0.6:
                wanted[group, is_well] += 1
                bodies.append(("\1".join(fields) + "\2").encode())
            else:
                bodies.append(
                    chosen.choice(
                        (b"", b"\2\2", b"\1\1\2", b"\xff\xfe", b"Other\1x\2", b"no trace")
                    )
                )
        send(world.cluster, [Message(topic, each) for each in bodies])
        to = world.folder()

        def check(report: Any, wanted: Counter[Any] = wanted) -> None:
            found = {row[1]: (row[2], row[3]) for row in report.rows if row[0] == "Pub"}
            groups = {group for group, _ in wanted}
            assert found == {
                g: (wanted[g, True] + wanted[g, False], wanted[g, False]) for g in groups
            }

        given = trace.TraceOptions(to=f"{to}/{number}", **{**world.place, "topic": topic})
        yield trace.run, given, given.to, check


def exports(world: World) -> Iterator[Step]:
    """Messages into a real Kafka: each arrives, and of a run that died one micro-batch comes twice at most."""
    goal, batch_rows = f"{world.topic}-out", 20
    given = kafka.ExportOptions(
        kafka=world.kafka,
        to_topic=goal,
        state=world.folder(),
        batch_rows=batch_rows,
        **world.place,
    )

    for number, count in enumerate((30, 15), 1):
        send(world.cluster, messages(world, count), queues=3)

        def check(report: Any, deaths: int = number) -> None:
            there = read_topic(world.cluster, world.topic)
            wanted = {
                (m.message_id, m.properties.get("KEYS"), m.body, tuple(users(m.properties)))
                for m in there
            }
            found = Counter[Any]()
            for row in records(world, goal):
                headers = {each.key: bytes(each.value).decode() for each in row.headers}
                key = row.key and bytes(row.key).decode()
                found[headers["UNIQ_KEY"], key, bytes(row.value), tuple(users(headers))] += 1
            assert found.keys() == wanted
            assert found.total() <= len(there) + deaths * batch_rows
            assert report.counts["rows"] == len(there)

        yield kafka.export_kafka, given, given.state, check


def users(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """The properties of a message that its user gave."""
    return sorted((k, v) for k, v in properties.items() if k[0] == "p" or k in ("KEYS", "TAGS"))


def records(world: World, topic: str) -> list[Any]:
    """All records of a topic of Kafka."""
    reader = world.spark.read.format("kafka").option("kafka.bootstrap.servers", world.kafka)
    found: list[Any] = (
        reader.option("includeHeaders", "true").option("subscribe", topic).load().collect()
    )
    return found


Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def record(chosen: Random) -> Record:
    """A record of Kafka: key, value and headers."""
    key = chosen.choice(
        (None, b"k1", "größe".encode(), b"\0\0\7\1k", f"k{chosen.randrange(9)}".encode())
    )
    names = chosen.choices(("p0", "p1", "p日"), k=chosen.randrange(4))
    headers = [
        (name, chosen.choice((None, b"", b"x y", b"\xc3(", "日".encode()))) for name in names
    ]
    return key, chosen.choice((None, body(chosen))), headers


def as_text(value: bytes) -> str | None:
    """The text that a property can hold; None: these bytes are none."""
    try:
        return None if {1, 2} & {*value} else value.decode()
    except UnicodeDecodeError:
        return None


def key_of(message: StoredMessage) -> bytes | None:
    """The key that a record of Kafka had."""
    if (hidden := message.properties.get("KAFKA_KEY")) is not None:
        return b64decode(hidden)
    key = message.properties.get("KEYS")
    return None if key is None else key.encode()


def hidden_of(message: StoredMessage) -> dict[str, bytes]:
    """The headers of a record of Kafka that are no properties."""
    given = json.loads(message.properties.get("KAFKA_HEADERS", "[]"))
    return {each["key"]: b64decode(each["value"]) for each in given}


def imports(world: World) -> Iterator[Step]:
    """Records of a real Kafka as messages: each arrives; a header that stands twice counts with its last value."""
    chosen, source = world.chosen, f"{world.topic}-in"
    given = kafka.ImportOptions(
        kafka=world.kafka, from_topic=source, to_topic=world.topic, state=world.folder(), batch_rows=20,
        nameserver=world.cluster.nameserver, progress="none",
    )  # fmt: skip

    for number, count in enumerate((30, 15), 1):
        made = [record(chosen) for _ in range(count)]
        columns = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
        rows = world.spark.createDataFrame(made, columns).write.format("kafka")
        rows.option("kafka.bootstrap.servers", world.kafka).option("topic", source).save()

        def check(report: Any, deaths: int = number) -> None:
            wanted = {}
            for row in records(world, source):
                last = {h.key: bytes(h.value or b"") for h in row.headers or ()}
                own = {name: text for name, value in last.items() if (text := as_text(value))}
                hidden = {name: value for name, value in last.items() if as_text(value) is None}
                place = source, row.partition, row.offset
                wanted[place] = bytes(row.value or b""), row.key and bytes(row.key), own, hidden
            found = Counter[tuple[Any, ...]]()
            for each in read_topic(world.cluster, world.topic):
                place = json.loads(each.properties["KAFKA_OF"])
                place = place["topic"], place["partition"], place["offset"]
                found[place] += 1
                own = {k: v for k, v in each.properties.items() if k[0] == "p"}
                assert (each.body, key_of(each), own, hidden_of(each)) == wanted[place]
            assert found.keys() == wanted.keys()
            assert found.total() <= len(wanted) + deaths * 20
            assert report.counts["rows"] == len(wanted)

        yield kafka.import_kafka, given, given.state, check


JOBS: dict[str, Callable[[World], Iterator[Step]]] = {
    "table": lambda world: tables(world, "parquet", JsonForm),
    "table-csv": lambda world: tables(world, "parquet", CsvForm),
    "table-avro": lambda world: tables(world, "parquet", AvroForm),
    "table-protobuf": lambda world: tables(world, "parquet", ProtobufForm),
    "table-delta": lambda world: tables(world, "delta", JsonForm),
    "cdc": lambda world: changes(world, "parquet"),
    "cdc-delta": lambda world: changes(world, "delta"),
    "compact": compactions,
    "replay": replays,
    "dlq-replay": dead_letters,
    "mirror": mirrors,
    "archive-of-topics": archives_of_topics,
    "archive-restore-rebuild-verify": stores,
    "stats-sql": counts,
    "trace": traces,
    "export-kafka": exports,
    "import-kafka": imports,
}
# A process dies once a scenario: its Spark takes seconds to start.
KILLED = {"replay"}
# One of each has its scenario in test_job_tables, with more that it must keep.
ALSO_ELSEWHERE = {"cdc", "cdc-delta"}
CHOSEN = [each for each in JOBS if len(SEEDS) > 1 or each not in ALSO_ELSEWHERE]


# Tables of some rows: to compile their queries takes longer than to interpret them.
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="module")
def small(spark: Any) -> Any:
    """A session of small things in the Spark of all tests."""
    small = spark.newSession()
    for name, value in SMALL.items():
        small.conf.set(name, value)
    small.conf.set("spark.sql.shuffle.partitions", "2")
    return small


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Kafka; the first one on a machine is fetched."""
    folder = tmp_path_factory.mktemp("kafka")
    with real_kafka(folder, partitions=2, jvm=("-Xmx256m", *QUICK_START)) as address:
        yield address


@pytest.fixture
def with_kafka(small: Any, kafka_address: str) -> Iterator[str]:
    """Where Kafka is, while the session knows Spark's connector for it, which no other test sees."""
    thread = small._jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    for jar in spark_jars().split(","):
        small.sql(f"ADD JAR '{jar}'")
    yield kafka_address
    thread.setContextClassLoader(loader)


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_does_what_its_topic_says_in_whatever_scenario(
    small, cluster, topic, tmp_path, monkeypatch, request, seed, name
):
    world = World(small, cluster, topic, tmp_path, Random(f"{name}-{seed}"))
    if "kafka" in name:
        world.kafka = request.getfixturevalue("with_kafka")
    is_killed = (IS_EACH_KILLED or name in KILLED) and not world.kafka
    # One step dies, another one runs twice: of what is done a second run changes nothing.
    dies_at = 0 if is_killed else world.chosen.randrange(2)
    for number, (job, options, place, check) in enumerate(JOBS[name](world)):
        if number == 0 and is_killed:
            die_in_a_process(world, job, options, place)
        elif IS_EACH_KILLED or number == dies_at:
            die_here(monkeypatch, world.chosen, partial(job, world.spark, options))
        check(job(world.spark, options))
        if number == 1 - dies_at:
            again = job(world.spark, options)
            assert not any((again.this_run or {}).values())
            check(again)
