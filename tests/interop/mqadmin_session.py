"""The 89 commands of mqadmin 5.3.3, in one JVM, against a cluster with users and rights.

What they print at a Java cluster is recorded in `mqadmin/java-5.3.3.txt`:

    python -m tests.interop.mqadmin_session

The test (test_mqadmin.py) runs the same lines against our servers. What differs from run to run (addresses, times,
versions, sizes, ids) is replaced by a word for it, in the record and in what is compared.
"""

import json
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cometmq.model.credentials import Credentials
from tests.interop import admin_jvm, reference
from tests.support import processes
from tests.support.accounts import NO_SLAVES, tools_file
from tests.support.auth_users import auth_settings

ADMIN = Credentials("the-admin", "mqadmin-secret")
RECORD = reference.HERE / "mqadmin" / "java-5.3.3.txt"

C, B = "-c DefaultCluster", "-b {BROKER}"
# One command a line. {BROKER} and {NAMES} are addresses, {DIR} is a folder, {OTHER} an address where nobody listens;
# {ID3} is the id of the fourth message of !send. `brokerStatus` and `clusterList` with -c ask a broker that nobody has sent or consumed at
# for 10 s, so that its rates are 0 and compared. A number in front: seconds, after which the command is stopped.
LINES = f"""
!commands
brokerStatus {C}
clusterList {C}
updateTopic {C} -t Orders -r 2 -w 2
updateTopic {B} -t Lone -r 1 -w 1 -p 6 -o true
updateTopic {B} -t bad?name -r 1 -w 1
updateTopicList {C} -f {{DIR}}/topics.json
updateTopicPerm {C} -t Lone -p 4
updateTopicPerm {B} -t Lone -p 6
topicRoute -t Orders
topicRoute -t Orders -l
topicRoute -t Nowhere
topicClusterList -t Orders
topicList
allocateMQ -t Orders -i 10.0.0.1,10.0.0.2,10.0.0.3
updateSubGroup {C} -g readers -r 3 -q 1 -s true
updateSubGroup {B} -g spare
updateSubGroup {B} -g bad?name
updateSubGroupList {B} -f {{DIR}}/groups.json
getConsumerConfig -g spare
getConsumerConfig -g nobody
setConsumeMode {B} -t Orders -g spare -m POP -q 2
!send Orders 10
!consume Orders 10
!heartbeat
topicStatus -t Orders
topicStatus -t Nowhere
consumerProgress -g readers
consumerProgress -g readers -t Orders -s true
consumerProgress
consumerStatus -g readers
consumerConnection -g readers
consumerConnection -g nobody
producerConnection -g writers -t Orders
producerConnection -g nobody -t Orders
producer {B}
brokerConsumeStats {B}
brokerConsumeStats {B} -l 1000
queryMsgById -t Orders -i {{OFFSETID3}}
queryMsgByKey -t Orders -k key3
queryMsgByKey -t Orders -k nothing
queryMsgByUniqueKey -t Orders -i {{ID3}}
queryMsgByOffset -t Orders -b broker-a -i 0 -o 1
queryMsgByOffset -t Orders -b broker-a -i 0 -o 99
queryMsgTraceById -i {{ID3}}
printMsg -t Orders -d true
printMsgByQueue -t Orders -a broker-a -i 1 -p true -d true
printMsgByQueue -t Orders -a broker-a -i 1 -f true
consumeMessage -t Orders -b broker-a -i 0 -o 0 -c 2
queryCq -t Orders -q 0 -i 1 -c 2 {B} -g readers
sendMessage -t Lone -p hello -k greeting -c t
sendMessage -t Lone -p hello -b broker-a -i 0
sendMsgStatus -b broker-a -s 64 -c 2
checkMsgSendRT -t Orders -a 3 -s 64
4 clusterRT -a 3 -s 64 -i 60
cloneGroupOffset -s readers -d spare -t Orders -o true
cloneGroupOffset -s nobody -d spare -t Orders -o true
!stop
resetOffsetByTime -g spare -t Orders -s 0
resetOffsetByTime -g spare -t Orders -s now -c DefaultCluster
resetOffsetByTime -g spare -t Orders -s 0 {B} -q 0 -o 2
skipAccumulatedMessage -g spare -t Orders
consumerProgress -g spare
clusterList
clusterList -m
brokerStatus {B}
getBrokerConfig {B}
getBrokerConfig {C}
updateBrokerConfig {B} -k fileReservedTime -v 48
updateBrokerConfig {B} -k brokerPermission -v 4
updateBrokerConfig {B} -k brokerPermission -v 6
updateBrokerConfig {B} -k deleteWhen -v 03
updateBrokerConfig {B} -k autoCreateTopicEnable -v false
updateBrokerConfig {B} -k autoCreateSubscriptionGroup -v false
updateBrokerConfig {C} -k inSyncReplicas -v 1
updateBrokerConfig {B} -k rocketmqHome -v /tmp
exportConfigs {C} -f {{DIR}}
exportMetadata {C} -f {{DIR}}
exportMetadata {B} -t -f {{DIR}}
exportMetadata {B} -g -f {{DIR}}
exportMetrics {C} -f {{DIR}}
exportPopRecord {B} -d true
exportMetadataInRocksDB -p {{DIR}}/none -t topics
rocksDBConfigToJson -t topics -p {{DIR}}/none -j true
rocksDBConfigToJson -t topics {C}
checkRocksdbCqWriteProgress {C} -t Orders
dumpCompactionLog -f {{DIR}}/none
updateStaticTopic {C} -t Static -qn 2
remappingStaticTopic {C} -t Static
addBroker -c {{OTHER}} -b /nowhere
addBroker -c {{BROKER}} -b /nowhere
removeBroker -c {{BROKER}} -b DefaultCluster:broker-a:0
haStatus {B}
haStatus {C}
getBrokerEpoch -b broker-a
getSyncStateSet -a {{NAMES}} -b broker-a
getControllerMetaData -a {{NAMES}}
getControllerConfig -a {{NAMES}}
updateControllerConfig -a {{NAMES}} -k a -v b
electMaster -a {{NAMES}} -b 0 -bn broker-a -c DefaultCluster
cleanBrokerMetadata -a {{NAMES}} -b 1 -bn broker-a -c DefaultCluster -l
resetMasterFlushOffset {B} -o 0
getColdDataFlowCtrInfo {B}
updateColdDataFlowCtrGroupConfig {B} -g readers -v 4096
updateColdDataFlowCtrGroupConfig {C} -g spare -v 8192
updateColdDataFlowCtrGroupConfig {B} -g spare -v much
getColdDataFlowCtrInfo {C}
removeColdDataFlowCtrGroupConfig {B} -g readers
removeColdDataFlowCtrGroupConfig {C} -g spare
getColdDataFlowCtrInfo {B}
setCommitLogReadAheadMode {B} -m 1
setCommitLogReadAheadMode {C} -m 0
createUser {B} -u alice -p alice-secret -t Normal
createUser {C} -u bob -p bob-secret
createUser {B} -u alice -p other -t Normal
createUser {B} -u carol -p carol-secret -t King
updateUser {B} -u bob -t Super
updateUser {B} -u bob -s disable
updateUser {B} -u nobody -s disable
getUser {B} -u alice
getUser {B} -u nobody
listUser {B}
listUser {B} -f ali
createAcl {B} -s User:alice -r Topic:Orders,Group:readers -a Pub,Sub -d Allow -i 10.0.0.0/8
createAcl {C} -s User:bob -r Topic:* -a Get -d Deny
createAcl {B} -s User:nobody -r Topic:* -a Get -d Deny
createAcl {B} -s User:bob -r Topic -a Get -d Deny
updateAcl {B} -s User:alice -r Topic:Orders -a Pub -d Deny
getAcl {B} -s User:alice
getAcl {B} -s User:nobody
listAcl {B}
listAcl {B} -s User:bob
listAcl {B} -r Topic:Orders
copyUser -f {{BROKER}} -t {{BROKER}} -u alice
copyAcl -f {{BROKER}} -t {{BROKER}} -s User:alice
deleteAcl {B} -s User:alice -r Topic:Orders
getAcl {B} -s User:alice
deleteAcl {C} -s User:bob
deleteAcl {B} -s User:nobody
deleteUser {B} -u alice
deleteUser {C} -u bob
deleteUser {B} -u nobody
listUser {B}
updateKvConfig -s space -k one -v 1
deleteKvConfig -s space -k one
updateOrderConf -t Orders -v broker-a:2 -m put
updateOrderConf -t Orders -m get
updateOrderConf -t Orders -m delete
wipeWritePerm -b broker-a
topicRoute -t Orders
addWritePerm -b broker-a
wipeWritePerm -b nobody
getNamesrvConfig
updateNamesrvConfig -k orderMessageEnable -v true
updateNamesrvConfig -k configStorePath -v /tmp/x
cleanExpiredCQ {B}
deleteExpiredCommitLog {B}
cleanUnusedTopic {B}
updateTopic {C} -t Counted -r 1 -w 1
updateSubGroup {C} -g counters
120 !load Counted 20
statsAll -t Counted
statsAll -t Orders
statsAll -a
topicStatus -t Counted
consumerProgress -g counters
brokerStatus {C}
clusterList {C}
!stop
3 startMonitoring
deleteSubGroup {C} -g spare
deleteSubGroup {B} -g nobody
deleteTopic {C} -t Lone
topicList
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What one line printed.

    Attributes:
        line: of `LINES`.
        text: without what differs from run to run.
        raw: with it, but for addresses and folders; without what a line of a stack trace or a log is.
        milliseconds: how long it took.
    """

    line: str
    text: str
    raw: str = ""
    milliseconds: int = 0


def lines() -> list[str]:
    """The lines of the session, those that are deeds of the program included."""
    return [line for line in LINES.splitlines() if line.strip()]


def commands() -> set[str]:
    """The names of the commands that are run."""
    return {name for name in map(name_of, lines()) if not name.startswith("!")}


def run(folder: Path, names: str, broker: str) -> list[Said]:
    """Run all lines in one JVM against a cluster."""
    home = folder / "home"
    write_files(folder, home)
    places = {
        "{BROKER}": broker,
        "{NAMES}": names,
        "{DIR}": str(folder),
        "{ROOT}": str(folder.parent),
        "{OTHER}": f"127.0.0.1:{processes.free_port()}",
    }
    session = []
    # One of its own: what it monitors goes on as long as it lives.
    with admin_jvm.Session(reference.VERSION) as jvm:
        for line in lines():
            seconds, words = scripted(line, places, names)
            milliseconds, text = jvm.run(home, *words, seconds=seconds)
            session.append(said_by(line, placed(text, places), milliseconds))
    return session


def said_by(line: str, text: str, milliseconds: int = 0) -> Said:
    """What a line of the session printed."""
    raw = printed_by(text)
    return Said(line, masked(line, raw), raw, milliseconds)


def placed(text: str, places: Mapping[str, str]) -> str:
    """A text with words for this run's addresses and folders."""
    for place, value in places.items():
        text = text.replace(value, place)
    return text


def scripted(line: str, places: Mapping[str, str], names: str) -> tuple[int, list[str]]:
    """The seconds that a line may take, and its words as they are run."""
    seconds, words = 30, line.split()
    if words[0].isdigit():
        seconds, words = int(words[0]), words[1:]
    for place, value in places.items():
        words = [word.replace(place, value) for word in words]
    if not words[0].startswith("!") and "-n" not in words:
        words += ["-n", names]
    return seconds, words


def write_files(folder: Path, home: Path) -> None:
    """What commands read, and who signs them."""
    tools_file(home / "conf" / "tools.yml", ADMIN)
    topics = [{"topicName": "Listed", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]
    (folder / "topics.json").write_text(json.dumps(topics))
    groups = [{"groupName": "listed", "retryQueueNums": 1, "retryMaxTimes": 2}]
    (folder / "groups.json").write_text(json.dumps(groups))


# What differs from run to run, in the order in which it is replaced.
MASKS = [
    (re.compile(r"\b(?!10\.0\.)\d{1,3}(\.\d{1,3}){3}(:\d+)?(@[\w#-]+)*"), "ADDRESS"),
    (re.compile(r"\b[0-9A-F]{32,56}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,:]\d+)?\b"), "TIME"),
    (re.compile(r"\b1[67]\d{11}\b"), "TIME"),
    (re.compile(r"\b\d{17}\b"), "TIME"),
    (re.compile(r"(?<=maybe started once, )\w+"), "STATE"),
]
# The same of some commands: how long something took, how much is free, how often in a second.
MASKS_OF = {
    "brokerStatus": [
        # Times of the run, the disk, and what fits into thread pools, which a broker of ours has not.
        (
            re.compile(
                r"(?m)^((?:\{BROKER\} +)?(?:[pg]\w+EntireTimeMax|putLatency999?|putMessageDistributeTime|\w+QueueCapacity"
                r"|commitLogDirCapacity|\w+DiskRatio\S*?|bootTimestamp|earliestMessageTimeStamp|runtime"
                # Java counts pulls of its own services, which find nothing.
                r"|getMissTps|getTotalTps) *: ).*$"
            ),
            r"\1VALUE",
        ),
        # Of rates in the last 10, 60 and 600 s the first, where it is 0.
        (re.compile(r"(?m)(?<=Tps)( *: )0(\.0+)?( .*)?$"), r"\g<1>0.0"),
    ],
    "clusterList": [
        # How old the oldest message is, in hours; how full the disk is.
        (re.compile(r"(?<=\)  0  )\d+\.\d\d  0\.\d{4}"), "HOURS  SPACE"),
    ],
    "sendMsgStatus": [(re.compile(r"rt=\d+ms"), "rt=TIME")],
    "checkMsgSendRT": [(re.compile(r"(?m)(?<=true  )\d+$|(?<=Avg RT: )[\d.]+"), "TIME")],
    "clusterRT": [(re.compile(r"(?<=broker-a  )[\d.]+"), "TIME")],
    "consumerProgress": [
        (re.compile(r"(?<=Consume TPS: )[\d.]+|(?<=CLUSTERING  )\d+"), "RATE")
    ],
    # What came in and went out in a second; the counts of it are compared.
    "statsAll": [(re.compile(r"(?<=  )\d+\.\d\d(?=  )"), "RATE")],
}
# Rates of a broker that was sent to a moment before; the test has bounds for them.
LOADED = {
    "brokerStatus -b {BROKER}": [
        (
            re.compile(
                r"(?m)^((?:put|getFound|getTransferred)Tps *: ).*$|(remainHowManyDataToFlush *: ).*$"
            ),
            r"\1\2VALUE",
        )
    ],
    "clusterList": [(re.compile(r"\b\d+\.\d\d(?=\(0,0ms)"), "RATE")],
}


def masked(line: str, text: str) -> str:
    """What a line of the session printed, without what differs from run to run."""
    own = (*MASKS_OF.get(name_of(line), ()), *LOADED.get(line, ()))
    for pattern, word in (*MASKS, *own):
        text = pattern.sub(word, text)
    return text


def recorded(said: Said) -> str:
    """The text of one line in a record: with rates, so that bounds of them can be tried on Java's, too."""
    text = said.raw
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


def printed_by(text: str) -> str:
    """What a command printed, without lines of traces and logs, and blanks beyond two."""
    kept = [
        re.sub(r"(?<=\S)  +", "  ", each.rstrip())
        for each in text.splitlines()
        if not re.match(r"\s+at |\s+\.\.\. \d+ more", each)
        and not reference.LOGBACK_NOISE.search(each)
    ]
    return "\n".join(kept).strip()


def name_of(line: str) -> str:
    """The command of a line."""
    return re.sub(r"^[0-9]+ ", "", line).split()[0]


def written(session: list[Said]) -> str:
    """The text of a record."""
    return "".join(f"$ {said.line}\n{recorded(said)}\n\n" for said in session)


def read_record() -> list[Said]:
    """What Java's servers made the commands print."""
    parts = re.split(r"(?m)^\$ (.*)\n", RECORD.read_text())[1:]
    return [said_by(line, text) for line, text in zip(parts[::2], parts[1::2], strict=True)]


def broker_settings() -> dict[str, object]:
    """What both brokers are told."""
    return auth_settings(
        ADMIN, ADMIN, **NO_SLAVES, traceTopicEnable="true", defaultTopicQueueNums=4
    )


def java_providers(folder: Path) -> dict[str, object]:
    """What a Java broker is told beside that: its own providers, and where users lie."""
    auth = "org.apache.rocketmq.auth"
    return {
        "authenticationProvider": f"{auth}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{auth}.authentication.provider.LocalAuthenticationMetadataProvider",
        "authorizationProvider": f"{auth}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{auth}.authorization.provider.LocalAuthorizationMetadataProvider",
        "authConfigPath": str(folder / "auth"),
    }


def record() -> None:
    """Start Java's servers, and write down what the commands print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = reference.nameserver(folder / "nameserver")
        settings = {**broker_settings(), **java_providers(folder)}
        broker = reference.broker(folder / "broker", names.address, settings=settings)
        with reference.served(names, broker):
            time.sleep(20)  # A Java broker has no rates before.
            session = run(folder / "session", names.address, broker.address)
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(written(session))


if __name__ == "__main__":
    record()
