"""Options: every mistake is an error that says what to do."""

from __future__ import annotations

import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq import Sql
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import mirror, table
from cometmq.spark.jobs.archive import ArchiveOptions
from cometmq.spark.jobs.manifest import manifest_id
from cometmq.spark.jobs.mirror import MirrorOptions
from cometmq.spark.jobs.replay import ReplayOptions
from cometmq.spark.jobs.table import TableOptions
from cometmq.spark.schema import COLUMNS, check_read_schema, message_schema
from cometmq.spark.session import _shuffle_conf
from cometmq.spark.sink.columns import TYPES as SINK_TYPES
from cometmq.spark.sink.options import SINK_OPTIONS
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.source.offsets import EARLIEST, LATEST
from cometmq.spark.source.options import SOURCE_OPTIONS
from cometmq.spark.source.settings import SourceSettings

GOOD = {"nameserver": "localhost:9876", "subscribe": "orders"}


def parse(*, is_stream=False, **options) -> SourceSettings:
    named = {name.replace("__", "."): text for name, text in options.items()}
    return SourceSettings.parse({**GOOD, **named}, is_stream=is_stream)


def test_a_batch_reads_everything_and_a_stream_what_comes():
    assert parse().starting.otherwise == EARLIEST
    assert parse(is_stream=True).starting.otherwise == LATEST
    assert parse().ending.otherwise == LATEST


@pytest.mark.parametrize("alias", ["nameServer", "NAMESRVADDR", "rocketmq.namesrvAddr"])
def test_names_work_in_any_case_and_as_in_older_connectors(alias):
    settings = SourceSettings.parse({alias: "a:1;b:2", "topic": "orders"}, is_stream=False)
    assert settings.name_servers == ("a:1", "b:2")
    assert settings.topics.names == ("orders",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"startingOffset": "latest"},
            "unknown option 'startingOffset'; did you mean 'startingOffsets'",
        ),
        ({"kafka__bootstrap__servers": "x"}, "unknown option 'kafka.bootstrap.servers'"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss': 'maybe' is neither true nor false"),
        ({"pull__batchSize": "0"}, "'pull.batchSize': 0 is not from 1 to 65536"),
        ({"pull__batchSize": "many"}, "'many' is not a whole number"),
        ({"propertiesFormat": "xml"}, "'xml' is not one of map, raw, json"),
        ({"startingOffsets": "erliest"}, "did you mean 'earliest'"),
        ({"endingOffsets": "earliest"}, "'earliest' is not an end"),
        ({"subscribePattern": "x.*"}, "exactly one of .* not subscribe and subscribePattern"),
        ({"maxOffsetsPerTrigger": "5"}, "has no effect for a batch"),
        ({"maxTriggerDelay": "soon"}, "not a duration"),
        ({"namesrvAddr": "other:1"}, "'nameServer' is given twice"),
        ({"group": "a b"}, "illegal characters"),
        (
            {"group": "a", "groupIdPrefix": "b"},
            "options 'group' and 'groupIdPrefix' are both set",
        ),
        ({"commitOffsets": "batch"}, "'commitOffsets' has no effect for a batch"),
        ({"maxBytesPerTrigger": "5"}, "'maxBytesPerTrigger' has no effect for a batch"),
        ({"startingTimestamp": "1700000000"}, "seconds.* In ms it is 1700000000000"),
        ({"endingTimestamp": "1700000000000000"}, "micros.* In ms it is 1700000000000"),
        ({"endingTimestamp": "1700000000000000000"}, "nanos.* In ms it is 1700000000000"),
        (
            {"startingTimestamp": "2026-11-27T15:40+00:00"},
            "'2026-11-27T15:40.00:00' is not a number; times are in ms since 1970, here 1795794000000",
        ),
        ({"endingTimestamp": "yesterday"}, "'yesterday' is not a whole number"),
        ({"startingTimestamp": "20261123"}, "1970-01-01, which is too early for a message"),
        ({"startingOffsetsByTimestamp": '{"t": {"b": 1700000000}}'}, "Timestamp: .*seconds"),
        ({"startingOffsetsByTimestamp": '{"t": -1}'}, "-1 is not a time"),
        ({"startingOffsetsByTimestamp": ""}, "startingOffsetsByTimestamp is not JSON"),
        ({"startingOffsets": "latst"}, "neither JSON nor .*; did you mean 'latest'"),
        ({"startingOffsets": ""}, "'' is neither JSON nor"),
        ({"endingOffsets": '{"t": -2}'}, "endingOffsets: -2 is not an end"),
        ({"maxBytesPerTrigger": "much"}, "'much' is not a size; write it like 500k, 64m or 1g"),
        ({"subExpression": "||"}, "has no tag"),
        ({"subExpressionType": "SQL92"}, "SQL92 needs a subExpression"),
        ({"subExpressionType": "SQL"}, "not one of TAG, SQL92"),
        ({"subscribe": "../x"}, "illegal characters"),
        ({"subscribe": " , "}, "blank"),
        (
            {"readFrom": "nearest"},
            "'readFrom': 'nearest' is not one of master, slave, suggested",
        ),
        ({"rocketmq__namespace": "a%b"}, "'rocketmq.namespace': 'a%b' is not a namespace"),
        ({"rocketmq__acessKey": "k"}, "did you mean 'rocketmq.accessKey'"),
        ({"is_stream": True, "endingOffsets": "latest"}, "has no effect for a stream"),
        ({"is_stream": True, "endingTimestamp": "0"}, "has no effect for a stream"),
    ],
)
def test_a_wrong_option_says_which_and_what_is_right(options, says):
    with pytest.raises(SettingsError, match=says):
        parse(**options)


def test_what_is_not_built_is_refused_by_source_and_sink():
    for side in (parse, sink):
        with pytest.raises(
            SettingsError,
            match=r"'rocketmq\.unitName': the name of a unit.* not implemented yet",
        ):
            side(**{"rocketmq.unitName": "u"})
    assert parse(**{"rocketmq.tls.enable": "false"}) == parse()


def test_credentials_go_together_and_no_text_shows_the_secret():
    given = {"rocketmq.accessKey": "user", "rocketmq.secretKey": "s3cret"}
    for side in (parse, sink):
        for name, text in given.items():
            with pytest.raises(SettingsError, match="belong together") as raised:
                side(**{name: text})
            assert "s3cret" not in str(raised.value)
        settings = side(**given)
        assert settings.credentials == Credentials("user", "s3cret")
        assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "t"}, "'nameServer' is required.*or NAMESRV_ADDR in the environment"),
        ({"nameserver": "x:1"}, "exactly one of"),
        (
            {"nameserver": "nowhere", "subscribe": "t"},
            "'nowhere' is not an address; write it like localhost:9876",
        ),
        (
            {"nameserver": ":9876", "subscribe": "t"},
            "':9876' is not an address; write it like localhost:9876",
        ),
        ({"nameserver": "a:99999", "subscribe": "t"}, "with a port from 1 to 65535"),
        ({"nameserver": ";", "subscribe": "t"}, "no address"),
        ({"nameserver": "x:1", "subscribePattern": "("}, "subscribePattern"),
        ({"nameserver": "x:1", "subscribePattern": ""}, "subscribePattern is empty"),
        ({"nameserver": "x:1", "assign": "[]"}, "assign"),
        ({"nameserver": "x:1", "assign": '{"t": 5}'}, "assign"),
        ({"nameserver": "x:1", "assign": "{}"}, "assign.* it names no topic"),
        ({"nameserver": "x:1", "assign": '{"t": {}}'}, "assign.* a topic has no broker"),
        (
            {"nameserver": "x:1", "assign": '{"t": "01"}'},
            "assign.* not a list of queue numbers",
        ),
        ({"nameserver": "x:1", "assign": '{"t": {"b": []}}'}, r"assign.* \[\] is not a list"),
    ],
)
def test_what_is_missing_or_no_sense_is_said(options, says, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(SettingsError, match=says):
        SourceSettings.parse(options, is_stream=False)


def test_the_environment_names_the_nameservers_where_no_option_does(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    for options in ({"subscribe": "t"}, {"subscribe": "t", "nameServer": "c:3"}):
        wanted = ("c:3",) if "nameServer" in options else ("a:1", "b:2")
        assert SourceSettings.parse(options, is_stream=True).name_servers == wanted
        to = {name.replace("subscribe", "topic"): text for name, text in options.items()}
        assert SinkSettings.parse(to).name_servers == wanted
    monkeypatch.setenv("NAMESRV_ADDR", "nowhere")
    with pytest.raises(
        SettingsError, match="NAMESRV_ADDR in the environment: 'nowhere' is not"
    ):
        SourceSettings.parse({"subscribe": "t"}, is_stream=False)


def test_rows_that_name_their_topic_go_to_no_cluster_that_only_the_environment_names(
    monkeypatch,
):
    """INSERT INTO brings no option of its table: what was read would go back to where it came from."""
    monkeypatch.setenv("NAMESRV_ADDR", "a:1")
    with pytest.raises(SettingsError, match="'nameServer' is required if the option 'topic'"):
        SinkSettings.parse({})


def test_what_spark_adds_itself_is_passed_over():
    SinkSettings.parse({"nameserver": "x:1", "checkpointlocation": "somewhere"})


def test_a_table_of_sql_has_one_list_of_options_for_reading_and_writing():
    options = {
        "nameserver": "x:1",
        "topic": "t",
        "option.topic": "t",
        "startingoffsets": "latest",
    }
    assert SinkSettings.parse(options).topic == "t"
    both = {**options, "batch.maxmessages": "5"}
    assert SourceSettings.parse(both, is_stream=False).topics.names == ("t",)


def sink(*, is_stream=False, **options) -> SinkSettings:
    return SinkSettings.parse({"nameserver": "x:1", **options}, is_stream=is_stream)


def test_a_stream_is_idempotent_and_a_batch_at_least_once_unless_told():
    assert sink().delivery == "at-least-once"
    assert sink(is_stream=True).delivery == "idempotent"
    assert sink(is_stream=True, delivery="AT-LEAST-ONCE").delivery == "at-least-once"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery": "exactly-once"}, "not one of at-least-once, idempotent, transactional"),
        ({"idColumn": "id"}, "'idColumn' has no effect with delivery at-least-once"),
        ({"ledgerDir": "x", "delivery": "idempotent"}, "'ledgerDir' has no effect"),
        ({"delivery": "transactional"}, "'ledgerDir' is required"),
        ({"delivery": "transactional", "ledgerDir": "x"}, "'writeId' is required"),
        ({"writeId": "../x", "delivery": "idempotent"}, "cannot be used as a folder name"),
        ({"queueSelector": "best"}, "not one of roundRobin, keys, partition"),
    ],
)
def test_a_promise_needs_the_options_that_go_with_it(options, says):
    with pytest.raises(SettingsError, match=says):
        sink(**options)


def test_a_stream_is_named_by_its_checkpoint():
    with pytest.raises(SettingsError, match="has no effect for a stream"):
        sink(is_stream=True, writeId="x")
    settings = sink(is_stream=True, delivery="transactional", ledgerDir="ledgers")
    assert settings.ledger_folder is not None
    assert Path(settings.ledger_folder).is_absolute()


@pytest.mark.parametrize(
    ("text", "ms"),
    [("250", 250), ("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("1h", 3_600_000)],
)
def test_durations_are_read_with_their_unit(text, ms):
    assert parse(is_stream=True, maxTriggerDelay=text).trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("text", "octets"),
    [("5", 5), ("10k", 10 << 10), ("64m", 64 << 20), ("1GB", 1 << 30), (" 2 Kb ", None)],
)
def test_sizes_are_read_with_their_unit(text, octets):
    if octets is None:
        with pytest.raises(SettingsError, match="not a size"):
            parse(is_stream=True, maxBytesPerTrigger=text)
    else:
        assert parse(is_stream=True, maxBytesPerTrigger=text).trigger_bytes_max == octets


def test_a_prefix_gives_each_query_a_group_of_its_own():
    groups = {parse(groupIdPrefix="reports").group for _ in range(3)}
    assert len(groups) == 3
    assert all(re.fullmatch("reports-[0-9a-f]{32}", group) for group in groups)


def test_sql_stays_sql_on_its_way_to_the_executors():
    settings = parse(subExpression="a > 3", subExpressionType="SQL92")
    there = pickle.loads(pickle.dumps(settings)).expression
    assert there == Sql("a > 3")


def test_settings_travel_to_the_executors():
    settings = parse(startingOffsets='{"orders": 5}', columns="topic, body")
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_columns_are_found_in_any_case_and_unknown_ones_named():
    assert message_schema(["QUEUEOFFSET", "body"]).names == ["queueOffset", "body"]
    with pytest.raises(SettingsError, match="unknown column 'boddy'; did you mean 'body'"):
        message_schema(["boddy"])


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("topic STRING, bodi BINARY", "unknown column 'bodi'; did you mean 'body'"),
        ("queueOffset INT", "'queueOffset' is bigint, not int"),
        ("body STRING", "'body' is binary, not string"),
        ("properties INT", "map<string,string> or string"),
    ],
)
def test_a_users_schema_is_checked(schema, says):
    with pytest.raises(SettingsError, match=says):
        check_read_schema(schema_of(schema))


def test_a_users_schema_may_ask_for_raw_properties():
    check_read_schema(schema_of("properties STRING, tags STRING"))


def schema_of(ddl: str):
    """A schema without a session: Spark's own DDL parser needs a Java."""
    from pyspark.sql.types import (
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
    )

    kinds = {"STRING": StringType, "BINARY": BinaryType, "INT": IntegerType, "BIGINT": LongType}
    fields = [part.split() for part in ddl.split(",")]
    return StructType([StructField(name, kinds[kind]()) for name, kind in fields])


@pytest.mark.parametrize(
    ("heading", "options"), [("## Source", SOURCE_OPTIONS), ("## Sink", SINK_OPTIONS)]
)
def test_the_page_lists_every_option_as_the_table_has_it(heading, options):
    page = Path(__file__).parents[3] / "docs" / "spark" / "options.md"
    section = re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE)
    rows = next(part for part in section if part.startswith(heading))
    for option in options:
        default = (
            "" if option.default is None else f"`{option.default}`" if option.default else ""
        )
        names = ", ".join(f"`{name}`" for name in (option.name, *option.aliases))
        assert f"| {names} | {default} | {option.says.replace('|', chr(92) + '|')} |" in rows


def test_the_page_of_columns_has_every_column_with_its_type():
    page = (Path(__file__).parents[3] / "docs" / "spark" / "schema.md").read_text()
    for name, kind in COLUMNS.items():
        assert f"| `{name}` | {kind.simpleString().upper()} |" in page
    for name in SINK_TYPES:
        assert f"`{name}`" in page.split("## Sink")[1]


def test_the_same_relative_path_in_another_directory_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = set[str]()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        replay = ReplayOptions(store="data/store", topic="orders", to_topic="again")
        archive = ArchiveOptions(store="data/store", to="archive")
        runs |= {manifest_id("replay", replay.what()), manifest_id("archive", archive.what())}
    assert len(runs) == 4


def test_one_place_in_two_spellings_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    spellings = ("archive", "./archive", str(tmp_path / "archive"))
    runs = [ArchiveOptions(store="store", to=each).what() for each in spellings]
    assert runs[0] == runs[1] == runs[2]
    assert ArchiveOptions(to="x").what()["store"] == ""


def test_nameservers_and_topics_in_two_spellings_are_one_run():
    """Otherwise a job that sends would send everything again."""
    one = MirrorOptions(source="b:9876;a:9876", target="localhost:1", topics="x,y", state="s")
    two = MirrorOptions(
        source=" A:9876, b:09876", target="127.0.0.1:1;", topics="y , x", state="s"
    )
    other = replace(one, source="a:9877;b:9876")
    assert one.what() == two.what() != other.what()
    assert replace(one, source="no port").what()["source"] == "no port"


@pytest.mark.parametrize(
    "other", ["a:1;b:2", "b:2;a:1", " a:01 ,c:3", "A:1", "localhost:4;x:1", "127.0.0.1:4"]
)
def test_runs_of_one_cluster_may_add_a_message_twice_however_it_is_named(other):
    given = TableOptions(nameserver="a:1;b:2;localhost:4", topic="t", to="x", schema="id INT")
    assert table._may_share(given, replace(given, nameserver=other, tag="a").what())
    assert not table._may_share(given, replace(given, nameserver="a:2;c:1").what())


def test_a_mirror_whose_clusters_share_a_nameserver_is_refused():
    given = MirrorOptions(
        source="a:1;b:2", target="c:3,B:02", topics="t", dry_run=True, progress="none"
    )
    with pytest.raises(SettingsError, match="are the same cluster"):
        mirror.run(None, given)  # type: ignore[arg-type]


NAME = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("master", "count"),
    [
        ("local", 2),
        ("local[1]", 2),
        ("local[2]", 4),
        ("local[8]", 16),
        ("local[2, 4]", 4),
        ("local[*]", max(2, 2 * (os.cpu_count() or 1))),
        ("local[*, 3]", max(2, 2 * (os.cpu_count() or 1))),
    ],
)
def test_a_local_session_has_two_shuffle_partitions_a_thread(master, count):
    assert _shuffle_conf(master) == {NAME: str(count)}


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]", "k8s://x"]
)
def test_a_cluster_keeps_the_number_of_spark(master):
    assert _shuffle_conf(master) == {}
