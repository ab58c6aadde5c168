"""Tables of jobs against a plain reading of the topic: random bodies, names, folders, schema changes and kills.

What a body says is in the table, or the body is in `_bad`. A run with other options, or without the notes of the runs
before, does not take away what the topic has deleted since. COMETMQ_JOB_EXAMPLES=20 tries more than one example each.
"""

import json
import os
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cometmq import Admin, Message
from cometmq.model.errors import SettingsError
from cometmq.offline.place import read_path
from cometmq.spark import read_delta
from cometmq.spark.jobs import cdc, compact, table
from cometmq.spark.jobs.run import Run
from tests.spark.test_jobs import place
from tests.support.job_worlds import NAMES, folder, quoted, send

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEEDS = range(int(os.environ.get("COMETMQ_JOB_EXAMPLES", "1")))


class Killed(OSError):
    """A run ends in the middle."""


def killed_once(monkeypatch: pytest.MonkeyPatch, run: Any, at: int) -> Any:
    """Run a job that dies when its micro-batch with a number is written and not noted, and once more."""
    real, left = Run.count_batch, [at]

    def dies(this: Run, batch: int, counts: dict[str, int]) -> None:
        if batch in left:
            left.clear()
            raise Killed("the power is gone")
        real(this, batch, counts)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "count_batch", dies)
        with pytest.raises(Exception, match="the power is gone"):
            run()
        return run()


def folder_of(tmp_path: Path, chosen: Random, form: str = "parquet") -> str:
    return str(tmp_path / folder(chosen, "[" if form == "delta" else "") / "table")


def amount_of(chosen: Random) -> str:
    """A number that DECIMAL(20,2) holds, in one of its spellings; a double does not hold each."""
    whole, cents = chosen.randrange(10**17), chosen.randrange(100)
    return chosen.choice(
        [
            f"{whole}.{cents:02}",
            f"-{whole}.{cents:02}00",
            f'"{whole}.{cents:02}"',
            f"{cents}e3",
            "0e0",
        ]
    )


BAD_AMOUNTS = ("1e20000000", "1e1000000000", "1.239", '"x"', "NaN", "[1]", "1" * 5000)


class People:
    """Changes of a table of people, and what a plain reading makes of them."""

    def __init__(self, chosen: Random, key: str, value: str) -> None:
        self.chosen, self.key, self.value = chosen, key, value
        self.rows: dict[int, tuple[int, Decimal | None]] = {}  # Time and value; None: deleted.
        self.bad = 0
        self.times = [*range(1, 500)]
        chosen.shuffle(self.times)

    def bodies(self, count: int) -> list[bytes]:
        return [self.body().encode() for _ in range(count)]

    def row(self, key: int, amount: str | None = None) -> str:
        more = "" if amount is None else f", {json.dumps(self.value)}: {amount}"
        return f"{{{json.dumps(self.key)}: {key}{more}}}"

    def set(self, key: int, time: int, amount: str | None) -> None:
        if time > self.rows.get(key, (0, None))[0]:
            self.rows[key] = (time, None if amount is None else Decimal(amount.strip('"')))

    def body(self) -> str:
        time, key, other = self.times.pop(), self.chosen.randrange(6), self.chosen.randrange(6)
        amount, kind = amount_of(self.chosen), self.chosen.choice("cccuumddtb")
        if kind == "t":
            return ""  # A tombstone.
        if kind == "b":
            self.bad += 1
            return self.bad_body(key, time)
        if kind == "d":
            self.set(key, time, None)
            change = f'"op": "d", "before": {self.row(key)}, "after": null'
        elif kind == "m" and other != key:
            self.set(key, time, None)
            self.set(other, time, amount)
            change = f'"op": "u", "before": {self.row(key)}, "after": {self.row(other, amount)}'
        else:
            self.set(key, time, amount)
            change = f'"op": "u", "before": null, "after": {self.row(key, amount)}'
        body = f'{{{change}, "ts_ms": {time}}}'
        return f'{{"schema": {{}}, "payload": {body}}}' if self.chosen.random() < 0.5 else body

    def bad_body(self, key: int, time: int) -> str:
        row = self.row(key, self.chosen.choice(BAD_AMOUNTS))
        sound = f'{{"op": "c", "after": {self.row(key, "1")}, "ts_ms": {time}}}'
        return self.chosen.choice(
            [
                f'{{"op": "c", "after": {row}, "ts_ms": {time}}}',
                f'{{"op": "c", "after": {self.row(key, "1")}}}',
                f"{sound}\n{sound}",
                '{"op": "t", "ts_ms": 1}',
                "no json",
            ]
        )

    @property
    def alive(self) -> dict[int, Decimal]:
        return {key: value for key, (_, value) in self.rows.items() if value is not None}


def newest_rows(spark: Any, to: str, report: Any) -> list[Any]:
    """The rows of the table that a run has written into its folder."""
    (note,) = report.notes
    newest = f"{to}/{note.removeprefix('the table: ')}"
    return spark.read.parquet(read_path(newest)).collect()


def people_in(spark: Any, given: Any, found: Any, people: People) -> dict[int, Any]:
    """The table by key; no key is there twice."""
    if given.table_format == "delta":
        rows = read_delta(spark, given.to).collect()
    else:
        rows = newest_rows(spark, given.to, found)
        if read_path(given.to) == given.to:
            seen = spark.read.parquet(given.to).drop("cometmq_version").collect()
            assert sorted(map(str, seen)) == sorted(map(str, rows))
    by_key = {row[people.key]: row[people.value] for row in rows}
    assert len(by_key) == len(rows)
    return by_key


@pytest.mark.parametrize("form", ["parquet", "delta"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cdc_is_what_the_changes_say_and_outlives_its_topic(
    spark, cluster, topic, tmp_path, monkeypatch, seed, form
):
    chosen = Random(f"{form}-{seed}")
    key, value, more = chosen.sample(NAMES, 3)
    people = People(chosen, key, value)
    narrow = f"{quoted(key)} BIGINT, {quoted(value)} DECIMAL(20,2)"
    given = cdc.CdcOptions(
        schema=narrow, key=key, to=folder_of(tmp_path, chosen, form), table_format=form, batch_rows=20,
        **place(cluster, topic),
    )  # fmt: skip
    send(cluster, [Message(topic, body) for body in people.bodies(30)])
    found = killed_once(monkeypatch, lambda: cdc.run(spark, given), chosen.randrange(2))
    assert people_in(spark, given, found, people) == people.alive
    assert found.counts["bad"] == people.bad

    # Another topic, as one whose messages were deleted since, and a column more: another run.
    bad = people.bad
    send(cluster, [Message(f"{topic}-2", body) for body in people.bodies(15)])
    inner = "STRUCT<`zip-code`: STRING>"  # A name that SQL must quote.
    wider = replace(given, topic=f"{topic}-2", schema=f"{narrow}, {quoted(more)} {inner}")
    found = cdc.run(spark, wider)
    assert people_in(spark, wider, found, people) == people.alive
    assert found.counts["bad"] == people.bad - bad
    for other, says in (
        (replace(wider, schema=narrow), "columns can only be added"),
        (replace(wider, schema=f"{narrow}, {quoted(more)} INT"), "columns can only be added"),
        (replace(wider, key=value), "was created with --key"),
        (replace(wider, ts="other"), "was created with --ts"),
    ):
        with pytest.raises(SettingsError, match=says):
            cdc.run(spark, other)
    if form == "parquet":
        # Without any note of the runs before; the rows of the first topic are only in the table.
        shutil.rmtree(Path(given.to) / "_jobs")
        assert people_in(spark, wider, cdc.run(spark, wider), people) == people.alive


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_is_what_the_bodies_say_and_outlives_its_topic(
    spark, cluster, topic, tmp_path, monkeypatch, seed
):
    chosen = Random(seed)
    name, value, more = chosen.sample(NAMES, 3)
    narrow = f"{quoted(name)} BIGINT, {quoted(value)} DECIMAL(20,2)"
    given = table.TableOptions(
        schema=narrow, to=folder_of(tmp_path, chosen), batch_rows=20, keep="queueId,topic", **place(cluster, topic)
    )  # fmt: skip
    rows: list[tuple[int, Decimal]] = []
    refused: list[bytes] = []
    messages = []
    for number in range(30):
        is_bad = chosen.random() < 0.3
        amount = chosen.choice(BAD_AMOUNTS) if is_bad else amount_of(chosen)
        body = f"{{{json.dumps(name)}: {number}, {json.dumps(value)}: {amount}}}".encode()
        messages.append(Message(topic, body))
        if is_bad:
            refused.append(body)
        else:
            rows.append((number, Decimal(amount.strip('"'))))
    send(cluster, messages)
    killed_once(monkeypatch, lambda: table.run(spark, given), chosen.randrange(2))
    # The same topic, made again, and a run that knows nothing of those before: it appends.
    shutil.rmtree(Path(given.to) / "_jobs")
    with Admin(cluster.nameserver) as admin:
        admin.topics.delete(topic)
    body = f"{{{json.dumps(name)}: 77, {json.dumps(more)}: 5.10}}".encode()
    send(cluster, [Message(topic, body)])
    wider = replace(given, schema=f"{narrow}, {quoted(more)} STRING")
    table.run(spark, wider)
    read = spark.read.option("mergeSchema", "true").parquet(read_path(given.to)).collect()
    assert sorted((row[name], row[value]) for row in read if row[name] != 77) == sorted(rows)
    assert [row[more] for row in read if row[name] == 77] == ["5.10"]
    bad = spark.read.parquet(f"{read_path(given.to)}/_bad").collect()
    assert sorted(bytes(row.body) for row in bad) == sorted(refused)
    with pytest.raises(SettingsError, match="columns can only be added"):
        table.run(spark, replace(wider, schema=narrow))


@pytest.mark.parametrize("seed", SEEDS)
def test_compact_is_what_the_topic_says_and_outlives_it(
    spark, cluster, topic, tmp_path, monkeypatch, seed
):
    chosen = Random(seed)
    keep = chosen.choice([1, 2])
    given = compact.CompactOptions(
        to=folder_of(tmp_path, chosen), keep_last=keep, batch_rows=20, **place(cluster, topic)
    )  # fmt: skip
    wanted: dict[str, list[str]] = {}

    def more(first: int, count: int) -> None:
        keys = [f"k{chosen.randrange(5)}" for _ in range(count)]
        bodies = ["" if chosen.random() < 0.2 else str(first + n) for n in range(count)]
        for key, body in zip(keys, bodies, strict=True):
            wanted[key] = [*wanted.get(key, []), body][-keep:] if body else []
        send(
            cluster,
            [
                Message(topic, body.encode(), keys=key)
                for body, key in zip(bodies, keys, strict=True)
            ],
        )

    def kept(found: Any) -> dict[str, list[str]]:
        by_key: dict[str, list[str]] = {}
        rows = newest_rows(spark, given.to, found)
        for row in sorted(rows, key=lambda each: each.queueOffset):
            by_key.setdefault(row["keys"], []).append(bytes(row.body).decode())
        return by_key

    more(0, 30)
    found = killed_once(monkeypatch, lambda: compact.run(spark, given), chosen.randrange(2))
    assert kept(found) == {key: each for key, each in wanted.items() if each}
    # As if retention had deleted the first ones: another run reads only what is left.
    more(30, 10)
    later = replace(given, where="queueOffset >= 25")
    assert kept(compact.run(spark, later)) == {
        key: each for key, each in wanted.items() if each
    }


@pytest.mark.parametrize(
    ("job", "schema", "says"),
    [
        (table, "id INT, batch INT", "'batch' is reserved for the table's folders"),
        (table, "id INT, _TOPIC INT", "'_TOPIC' is reserved for a column named by --keep"),
        (table, "id INT, ID INT", "column 'ID' appears twice"),
        (cdc, "id INT, _ts INT", "'_ts' is reserved for the time of a row's last change"),
        (cdc, "id INT, _is_gone INT", "'_is_gone' is reserved by this job"),
        (cdc, "id INT, cometmq_version INT", "'cometmq_version' is reserved by this job"),
    ],
)
def test_a_column_with_a_name_of_ours_is_refused_by_name(spark, tmp_path, job, schema, says):
    to = str(tmp_path)
    given: Any = (
        table.TableOptions(topic="t", schema=schema, to=to)
        if job is table
        else cdc.CdcOptions(topic="t", schema=schema, key="id", to=to)
    )
    with pytest.raises(SettingsError, match=says):
        job.run(spark, given)
    assert not [*tmp_path.iterdir()]


def test_a_folder_into_which_nothing_can_be_merged_is_refused_by_name(
    spark, cluster, topic, tmp_path
):
    send(cluster, [Message(topic, b"")])
    to = str(tmp_path / "a [1]")
    given = cdc.CdcOptions(
        schema="id INT", key="id", to=to, table_format="delta", **place(cluster, topic)
    )
    with pytest.raises(
        SettingsError, match=r"cannot merge into a folder with \[ \] in its path"
    ):
        cdc.run(spark, given)
