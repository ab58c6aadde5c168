"""All 89 commands of Java's mqadmin against our servers print what they print at Java's, but for what stands here.

`mqadmin_session.py` has the commands, and records what Java's servers make them print. Compared are head lines, rows, their
order and each value; not addresses, ids and versions, and of a refusal its code and not its words. Rates are compared where a broker
has been quiet for 10 s. Other rates and times are not those of another run: they have to lie within this one, and within what
was sent and consumed in it; rates of Java's, as they were recorded, too.
"""

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop import mqadmin_session as session
from tests.interop.mqadmin_session import Said
from tests.support.programs import small_cluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

COMMANDS = 89
# Lines that print something else here on purpose: what is found in our text, and why.
DIFFERS = {
    # A group's name that Java cannot use as a file's or topic's name is refused, as a topic's is.
    "updateSubGroup -b {BROKER} -g bad?name": "CODE: 29",
    # Java takes them for other values: a user of another type for Normal, a resource without a name for all that begin with nothing.
    "createUser -b {BROKER} -u carol -p carol-secret -t King": "CODE: 29",
    "createAcl -b {BROKER} -s User:bob -r Topic -a Get -d Deny": "CODE: 29",
    # Java answers SUCCESS and forgets the value.
    "updateColdDataFlowCtrGroupConfig -b {BROKER} -g spare -v much": "CODE: 29",
    # No answer holds a password, so there is none to copy: `cometmq acl copy` does it.
    "copyUser -f {BROKER} -t {BROKER} -u alice": "CODE: 29",
    # Queues lie in files, and none in RocksDB.
    "checkRocksdbCqWriteProgress -c DefaultCluster -t Orders": "CODE: 1",
    "rocksDBConfigToJson -t topics -c DefaultCluster": "CODE: 1",
    # There are no static topics.
    "updateStaticTopic -c DefaultCluster -t Static -qn 2": "CODE: 3",
    "remappingStaticTopic -c DefaultCluster -t Static": "No topic route to do the remapping",
}
# Rows of Java's that are not here, and why.
NOT_HERE = {
    # The static topic that was refused, and the retry topic of its tools' own group, which nobody ever reads.
    "topicList": {"Static", "%RETRY%TOOLS_CONSUMER"},
    # It is there once its consumer has told of it, which takes a moment.
    "consumerProgress": {"%RETRY%counters  broker-a  0  0  0  0  0  N/A"},
    "listUser": {r"carol  \S+  Normal  enable"},
    "listAcl": {r"User:bob  Custom  Topic:  \[Get\]  null  Deny"},
    "statsAll": {r"(\w+)  \1  \d+  RATE  RATE  \d+  \d+"},
    # Of a store without messages Java says that there was one, and that its log begins in front of 0.
    "brokerStatus": {
        r"\{BROKER\}  putMessageTimesTotal  : 1",
        r"\{BROKER\}  commitLogMinOffset  : -1",
    },
}
# Java names a topic among its own groups (ConsumerManager adds the topic's name to them).
GROUP_OF_ITSELF = re.compile(
    r"MessageTrack \[consumerGroup=Orders, .*?\(\S+:\d+\)\]", re.DOTALL
)
# What `exportConfigs` and scripts read of the settings; the others of Java's are of its threads, maps and RocksDB.
KEYS_READ = set(
    """
    brokerClusterName brokerId brokerName brokerRole fileReservedTime flushDiskType maxMessageSize messageDelayLevel
    msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable autoCreateSubscriptionGroup
    brokerPermission deleteWhen listenPort haListenPort brokerIP1 brokerIP2 bindAddress namesrvAddr storePathRootDir
    storePathCommitLog mappedFileSizeCommitLog inSyncReplicas totalReplicas slaveTimeout defaultTopicQueueNums storeType
    enableControllerMode enableDLegerCommitLog enableSlaveActingMaster authenticationEnabled authorizationEnabled
    initAuthenticationUser innerClientAuthenticationCredentials transactionTimeOut transactionCheckMax
    transactionCheckInterval clientCallbackExecutorThreads
    """.split()  # noqa: SIM905  One to a line would be a page.
)
# Keys whose values are of the machine, of a run, or on purpose others.
VALUES_ASIDE = {
    "listenPort", "haListenPort", "initAuthenticationUser", "innerClientAuthenticationCredentials",
    "clientCallbackExecutorThreads",
}  # fmt: skip


class Ran(NamedTuple):
    """A session: what each line printed, by its number, and when the servers started and ended (seconds since 1970)."""

    said: dict[int, Said]
    began: float
    ended: float


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What each line printed at our servers."""
    began = time.time()
    folder: Path = tmp_path_factory.mktemp("mqadmin")
    with small_cluster(folder, **session.broker_settings()) as (names, broker):
        said = session.run(folder / "session", names.address, broker.address)
    assert "Traceback" not in broker.log.read_text()
    assert session.ADMIN.secret_key not in broker.log.read_text()
    return Ran(dict(enumerate(said)), began, time.time())


RECORD = dict(enumerate(session.read_record()))


def test_the_record_is_of_these_lines_and_they_are_all_commands():
    assert [said.line for said in RECORD.values()] == session.lines()
    known = re.findall(r"(?m)^ *(\w+)  .*$", RECORD[0].text)
    assert len(set(known)) == COMMANDS
    assert set(known) == session.commands()


@pytest.mark.parametrize("number", RECORD, ids=[said.line for said in RECORD.values()])
def test_a_command_prints_what_it_prints_at_java(ran, number):
    line, theirs = RECORD[number].line, RECORD[number].text
    said = ran.said[number].text
    name = session.name_of(line)
    if line in DIFFERS:
        assert DIFFERS[line] in said
        assert said != theirs, "the difference is gone: take the line out of DIFFERS"
    elif name in ("getBrokerConfig", "getNamesrvConfig"):
        check_settings(name, said, theirs)
    elif name == "brokerStatus":
        # Ours tells more: of what is not told at Java, too.
        assert set(rows(name, theirs)) - set(said.splitlines()) == set()
    elif name in ("statsAll", "topicList"):
        # Topics come in a set.
        assert sorted(rows(name, theirs)) == sorted(rows(name, said))
    else:
        assert rows(name, said) == rows(name, theirs)


DATE = re.compile(r"\b(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
# Milliseconds since 1970, and the same as people write them, yyyyMMddHHmmssSSS.
MILLISECONDS, DIGITS = re.compile(r"\b1[67]\d{11}\b"), re.compile(r"\b(20\d{12})(\d{3})\b")
SLACK_SECONDS = 2  # The clocks of a JVM and ours are read with other precisions.


def times_of(text: str) -> list[float]:
    """All times that stand in a text, in seconds since 1970."""
    found = [
        datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()
        for day, clock in DATE.findall(text)
    ]
    found += [int(each) / 1000 for each in MILLISECONDS.findall(text)]
    for day, _ in DIGITS.findall(text):
        moment = datetime.strptime(day, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        found.append(moment.timestamp())
    return found


def test_times_lie_within_the_run(ran):
    """Those of messages, offsets, clients, versions and settings; in each command that tells some at Java."""
    with_times = 0
    for number, said in ran.said.items():
        told = times_of(said.raw)
        assert all(
            ran.began - SLACK_SECONDS <= each <= ran.ended + SLACK_SECONDS for each in told
        ), said
        with_times += bool(told)
        if "TIME" in RECORD[number].text and said.line not in DIFFERS:
            assert told or "TIME" in said.text, said
    assert with_times >= 15


def test_the_age_of_the_oldest_message_lies_within_the_run(ran):
    """In hours; of a store without messages those since 1970."""
    ages = [
        float(age)
        for said in ran.said.values()
        for age in re.findall(r"\)  0  (\d+\.\d\d)  0\.\d{4}  true", said.raw)
    ]
    assert len(ages) == 3
    assert abs(ages[0] - ran.began / 3600) < 1
    assert max(ages[1:]) <= (ran.ended - ran.began) / 3600 + 0.01


def test_what_sends_took_lies_within_their_command(ran):
    found = 0
    for said in ran.said.values():
        name = session.name_of(said.line)
        took = []
        if name == "sendMsgStatus":
            took = re.findall(r"rt=(\d+)ms", said.raw)
            assert len(took) == 2
        elif name == "checkMsgSendRT":
            took = re.findall(r"(?m)true  (\d+)$|Avg RT: ([\d.]+)", said.raw)
            took = ["".join(each) for each in took]
            assert len(took) == 4
        elif name == "clusterRT":
            took = re.findall(r"broker-a  ([\d.]+)", said.raw)
            assert len(took) == 1
        assert all(0 <= float(each) <= said.milliseconds for each in took), said
        found += len(took)
    assert found == 7


@pytest.mark.parametrize("whose", ["ours", "java"])
def test_rates_are_of_what_was_sent_and_consumed(ran, whose):
    """At most all of it within one look of 10 s; of the fixed load at least all of it within a minute, if it was no longer."""
    rated, since_load = 0, 0
    all_said = (ran.said if whose == "ours" else RECORD).values()
    put, got = (
        most_told(all_said, key) for key in ("putMessageTimesTotal", "msgGetTotalTodayNow")
    )
    for said in all_said:
        if session.name_of(said.line) == "!load" or since_load:
            since_load += said.milliseconds or 1
        for rate, count, is_of_load in rates_of(said, put, got):
            least = LOADED / 60 if is_of_load and since_load < 60_000 else 0.0
            assert least - 0.01 <= rate <= count / 10 + 0.01, said
            rated += 1
    assert rated >= 40


LOADED, CONSUMED = 20, 10  # Messages of !load behind its first, and of !consume.
COUNTED_BY = {
    "putTps": "putMessageTimesTotal", "getFoundTps": "msgGetTotalTodayNow", "getTransferredTps": "msgGetTotalTodayNow",
}  # fmt: skip


def most_told(all_said: Iterable[Said], key: str) -> int:
    """The most that `brokerStatus` said of a count."""
    return max(
        int(count) for said in all_said for count in re.findall(rf"\b{key} *: (\d+)", said.raw)
    )


def rates_of(said: Said, put: int, got: int) -> Iterator[tuple[float, int, bool]]:
    """Rates that a line told, each with all messages that it may be of, and whether it is of the load alone.

    `put` and `got` are those of the whole session.
    """
    name, text = session.name_of(said.line), said.raw
    if name == "statsAll":
        yield from rates_of_topics(text)
    elif name == "consumerProgress":
        is_of_load = "counters" in said.line
        count = 1 + LOADED if is_of_load else CONSUMED
        for rate in re.findall(r"Consume TPS: ([\d.]+)|(?m:CLUSTERING  (\d+)  \d+$)", text):
            yield float("".join(rate)), count, is_of_load
    elif name == "clusterList":
        found = re.findall(r"(\d+\.\d\d)\(0,0ms", text)
        yield from (
            (float(rate), count, False) for rate, count in zip(found, (put, got), strict=False)
        )
    elif name == "brokerStatus":
        told = dict(re.findall(r"(?m)(\w+) *: (.*)$", text))
        for key, counted_by in COUNTED_BY.items():
            yield from (
                (float(rate), int(told[counted_by]), False) for rate in told[key].split()
            )


def rates_of_topics(text: str) -> Iterator[tuple[float, int, bool]]:
    """Rates that `statsAll` told, with the counts in 24 hours beside them."""
    for topic, *numbers in re.findall(
        r"(?m)^(\S+)  .*?(\d+\.\d\d)  (?:(\d+\.\d\d)  )?(\d+)  (\d+|NO_CONSUMER)$", text
    ):
        for rate, count in zip(numbers[:2], numbers[2:], strict=True):
            if rate:
                yield float(rate), int(count), topic == "Counted" and int(count) > 0


def rows(name: str, text: str) -> list[str]:
    """The lines of a text, without those that are not here, without the words of refusals and passwords."""
    gone = NOT_HERE.get(name, set())
    kept = []
    for line in GROUP_OF_ITSELF.sub("", text).splitlines():
        if not line or any(re.fullmatch(each, line) for each in gone):
            continue
        if re.match(r"(See|For more information, please visit the url,) https://", line):
            continue
        kept.append(said_alike(line))
    return kept


def said_alike(line: str) -> str:
    """A line without the words of a refusal, a password, and how many topics there are."""
    line = re.sub(r"(CODE: \d+)  DESC: .*", r"\1", line)
    line = re.sub(
        r"^(\S+)  (\S+)  (Normal|Super)  (enable|disable)$", r"\1  ******  \3  \4", line
    )
    return re.sub(r"(name server\[\{NAMES\}\] OK, )\d+", r"\1COUNT", line)


def check_settings(name: str, said: str, theirs: str) -> None:
    """What scripts read is there, with the same values."""
    own, java = (dict(re.findall(r"(?m)^(\S+?) *=  ?(.*)$", text)) for text in (said, theirs))
    wanted = KEYS_READ if name == "getBrokerConfig" else set(java) & set(own)
    assert wanted <= set(own), wanted - set(own)
    other = {
        key: (own[key], java[key])
        for key in wanted - VALUES_ASIDE
        if own[key] != java[key] and "{ROOT}" not in java[key]
    }
    assert other == {}
