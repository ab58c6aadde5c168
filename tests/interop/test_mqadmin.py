"""All 89 commands of Java's mqadmin against our servers print what they print at Java's, but for what stands here.

`mqadmin_session.py` has the commands, and records what Java's servers make them print. Compared are head lines, rows, their
order and each value; not addresses, ids and versions, and of a refusal its code and not its words. Times and rates are not those of another
run: they have to lie within this one, and within what was sent and consumed in it.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop import mqadmin_session as session
from tests.interop.mqadmin_session import Said
from tests.support import processes

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
    with processes.nameserver(folder / "nameserver") as names:
        settings = session.broker_settings()
        broker = processes.broker(folder / "broker", names.address, settings=settings)
        (folder / "broker" / "broker.conf").chmod(0o600)
        with broker:
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
        assert set(theirs.splitlines()) <= set(said.splitlines())
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


def test_rates_are_of_what_was_sent_and_consumed(ran):
    """At most all of it within one look of 10 s; of the fixed load at least all of it within a minute, if it was no longer."""
    rated, loaded = 0, 0
    for said in ran.said.values():
        if session.name_of(said.line) == "!load":
            loaded = said.milliseconds
        if session.name_of(said.line) != "statsAll":
            continue
        loaded += said.milliseconds
        for topic, *numbers in re.findall(
            r"(?m)^(\S+)  .*?(\d+\.\d\d)  (?:(\d+\.\d\d)  )?(\d+)  (\d+|NO_CONSUMER)$", said.raw
        ):
            is_whole = topic == "Counted" and loaded < 60_000
            for rate, count in zip(numbers[:2], numbers[2:], strict=True):
                if rate:
                    least = int(count) / 60 if is_whole else 0.0
                    assert least - 0.01 <= float(rate) <= int(count) / 10 + 0.01, said
            rated += 1
    assert rated >= 6


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
