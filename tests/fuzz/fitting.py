"""Requests of every code with the fields and bodies that fit it, most of them plausible, some of them absurd.

A frame that is broken is refused by its form; what is well formed reaches the handlers. Each code has its fields here
by name, and each field a kind: what a client would put there, and what nobody should. A body is a JSON value of the
right shape, of which a part is changed now and then.
"""

import json
import random
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.fuzz.mutations import NASTY
from tests.support.frames import json_frame

TOPICS = [
    "FuzzTopic", "FuzzOther", "FuzzNew", "TBW102", "%RETRY%FuzzGroup", "%DLQ%FuzzGroup", "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "DefaultCluster",
    "broker-a", "t" * 127,
]  # fmt: skip
GROUPS = ["FuzzGroup", "FuzzOtherGroup", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", "g" * 120]
EXPRESSIONS = [
    "*", "a", "a || b", "a > 1", "a IS NOT NULL AND b IN ('x', 'y')", "a BETWEEN 1 AND 5 OR NOT (b = 'x')",
    "a =", "a||||b", "(" * 50, "a = 1" + " OR a = 2" * 50,
]  # fmt: skip
PROPERTIES = [
    "", "KEYS\x01k1 k2\x02TAGS\x01a\x02", "DELAY\x013\x02", "TIMER_DELAY_MS\x012000\x02", "TRAN_MSG\x01true\x02PGROUP\x01p\x02",
    "TIMER_DELIVER_MS\x011\x02", "TIMER_DEL_UNIQKEY\x01x\x02", "__SHARDINGKEY\x01s\x02", "DELAY\x0199999999999\x02",
    "INNER_NUM\x01-1\x02INNER_BASE\x010\x02", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02",
    "no separator", "\x01\x02", "a\x01b", "REAL_TOPIC\x01FuzzTopic\x02REAL_QID\x01999\x02", "UNIQ_KEY\x01" + "0" * 32 + "\x02",
]  # fmt: skip
CONFIGURATIONS = [
    b"maxTransferCountOnMessageInMemory=32\n", b"noSuchKey=1\n", b"fileReservedTime=-1\n", b"\\u00", b"=\n=", b"",
    b"listenPort=1\n", b"storePathRootDir=/tmp\n", b"a" * 1000,
]  # fmt: skip

Chance = random.Random
Kind = Callable[[Chance], object]


def one_of(values: list[Any]) -> Kind:
    return lambda chance: chance.choice(values)


def now_ms(chance: Chance) -> int:
    return int(time.time() * 1000) + chance.choice([0, 0, -1, 1, -3_600_000, 60_000])


KINDS: dict[str, Kind] = {
    "topic": one_of(TOPICS),
    "group": one_of(GROUPS),
    "queue": one_of([0, 0, 1, 2, 3, -1, 7, 999]),
    "offset": one_of([0, 0, 1, 2, 5, 100, -1, 4096, 1 << 40]),
    "count": one_of([0, 1, 1, 4, 32, 64, -1]),
    "flag": one_of([0, 0, 1, 2, 4, 6, 8, 12, 0xFFFF]),
    "bits": lambda chance: chance.choice([0, 4, 4, 1 << chance.randrange(17)]),
    "truth": one_of(["true", "false"]),
    "time": now_ms,
    # What a pull or pop waits holds back no round, and a hidden message comes again soon.
    "wait": one_of([0, 0, 100, 500]),
    # A broker that promised to be heard sooner is closed when it is not.
    "patience": one_of([120_000, 600_000]),
    "hidden": one_of([1, 100, 1_000, 60_000]),
    "expression": one_of(EXPRESSIONS),
    "expression_type": one_of(["TAG", "SQL92", "TAG", "CLASS", ""]),
    "properties": one_of(PROPERTIES),
    "id": one_of(["7F00000100002A9F0000000000000000", "x", "0" * 32, "C0A8" * 8]),
    "receipt": one_of(["0 1 60000 0 0 broker-a 0 0", "5 1763900000000 1000 3 1 broker-a 0 5", "a b c"]),
    "client": one_of(["fuzz@1", "10.0.0.1@2#3", "c" * 200]),
    "address": one_of(["127.0.0.1:1", "10.0.0.1:10911", "fuzz", ""]),
    "broker": one_of(["broker-a", "fuzz-broker", "fuzz-other"]),
    "cluster": one_of(["DefaultCluster", "FuzzCluster"]),
    "perm": one_of([0, 2, 4, 6, 7, 99]),
    "word": one_of(["ORDER_TOPIC_CONFIG", "k", "broker-a:4", "TOPIC_PUT_NUMS", "upper", "lower", "+message.type=NORMAL"]),
    "nothing": one_of([None]),
}  # fmt: skip

_SEND = {
    "producerGroup": "group", "topic": "topic", "defaultTopic": "topic", "defaultTopicQueueNums": "count",
    "queueId": "queue", "sysFlag": "bits", "bornTimestamp": "time", "flag": "flag", "properties": "properties",
    "reconsumeTimes": "count", "unitMode": "truth", "batch": "truth", "maxReconsumeTimes": "count",
}  # fmt: skip
_SEND_V2 = dict(zip("abcdefghijkmlo", _SEND.values(), strict=False)) | {"n": "broker"}
_PULL = {
    "consumerGroup": "group", "topic": "topic", "queueId": "queue", "queueOffset": "offset", "maxMsgNums": "count",
    "sysFlag": "bits", "commitOffset": "offset", "suspendTimeoutMillis": "wait", "subVersion": "count",
    "subscription": "expression", "expressionType": "expression_type", "maxMsgBytes": "offset",
}  # fmt: skip
_QUEUE = {"topic": "topic", "queueId": "queue"}
_GROUP_QUEUE = {"consumerGroup": "group", **_QUEUE}
_TOPIC_GROUP = {"topic": "topic", "group": "group"}
_POP = {
    **_GROUP_QUEUE, "maxMsgNums": "count", "invisibleTime": "hidden", "pollTime": "wait", "bornTime": "time",
    "initMode": "flag", "expType": "expression_type", "exp": "expression", "order": "truth", "attemptId": "id",
}  # fmt: skip
_ACK = {**_GROUP_QUEUE, "extraInfo": "receipt", "offset": "offset"}
_KV = {"namespace": "word", "key": "word"}
_IDENTITY = {
    "brokerName": "broker",
    "brokerAddr": "address",
    "clusterName": "cluster",
    "brokerId": "queue",
}
_REPLY = {**_SEND, "bornHost": "address", "storeHost": "address", "storeTimestamp": "time"}

_SUBSCRIPTION = {
    "topic": "FuzzTopic", "subString": "a || b", "tagsSet": ["a", "b"], "codeSet": [97, 98], "subVersion": 1,
    "expressionType": "TAG", "classFilterMode": False,
}  # fmt: skip
_CONSUMER = {
    "groupName": "FuzzGroup", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [_SUBSCRIPTION], "unitMode": False,
}  # fmt: skip
_HEARTBEAT = {
    "clientID": "fuzz@1",
    "consumerDataSet": [_CONSUMER],
    "producerDataSet": [{"groupName": "FuzzGroup"}],
    "heartbeatFingerprint": 0,
    "isWithoutSub": False,
}
_MESSAGE_QUEUE = {"topic": "FuzzTopic", "brokerName": "broker-a", "queueId": 0}
_LOCKS = {"consumerGroup": "FuzzGroup", "clientId": "fuzz@1", "mqSet": [_MESSAGE_QUEUE]}
_TOPIC_CONFIG = {
    "topicName": "FuzzTopic", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False, "attributes": {},
}  # fmt: skip
_GROUP_CONFIG = {
    "groupName": "FuzzGroup", "consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1,
    "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1, "attributes": {},
    "groupRetryPolicy": {"type": "CUSTOMIZED"}, "subscriptionDataSet": None,
}  # fmt: skip
_VERSION = {"stateVersion": 0, "timestamp": 1763900000000, "counter": 1}
_REGISTRATION = {
    "filterServerList": [],
    "topicConfigSerializeWrapper": {
        "topicConfigTable": {"FuzzTopic": _TOPIC_CONFIG}, "dataVersion": _VERSION,
        "topicQueueMappingInfoMap": {}, "topicQueueMappingDetailMap": {},
    },
}  # fmt: skip
_ROUTE = {
    "queueDatas": [
        {"brokerName": "fuzz-broker", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}
    ],
    "brokerDatas": [], "filterServerTable": {},
}  # fmt: skip
_BATCH_ACK = {
    "brokerName": "broker-a",
    "acks": [
        {"c": "FuzzGroup", "t": "FuzzTopic", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 60000, "b": "Aw=="}
    ],
}  # fmt: skip
_ASSIGNMENT = {
    "topic": "FuzzTopic", "consumerGroup": "FuzzGroup", "clientId": "fuzz@1", "strategyName": "AVG",
    "messageModel": "CLUSTERING",
}  # fmt: skip
_MODE = {
    "topic": "FuzzTopic",
    "consumerGroup": "FuzzGroup",
    "mode": "POP",
    "popShareQueueNum": 0,
}
_CHECK = {"clientId": "fuzz@1", "group": "FuzzGroup", "subscriptionData": _SUBSCRIPTION}

_USER = {"username": "fuzz", "password": "fuzz", "userType": "Normal", "userStatus": "enable"}
_ACL = {
    "subject": "User:fuzz",
    "policies": [
        {
            "policyType": "Custom",
            "entries": [
                {
                    "resource": "Topic:FuzzTopic",
                    "actions": ["Pub"],
                    "sourceIps": ["10.0.0.0/8"],
                    "decision": "Allow",
                }
            ],
        }
    ],
}

# What the broker takes: the fields of each code, and its body where that has a form.
BROKER: dict[int, tuple[Mapping[str, str], object]] = {
    10: (_SEND, b"body"), 310: (_SEND_V2, b"body"), 320: (_SEND_V2 | {"m": "truth"}, b"batch"),
    11: (_PULL, None), 361: (_PULL, None),
    12: ({"topic": "topic", "key": "word", "maxNum": "count", "beginTimestamp": "time", "endTimestamp": "time",
          "_UNIQUE_KEY_QUERY": "truth"}, None),
    14: (_GROUP_QUEUE | {"setZeroIfNotFound": "truth"}, None),
    15: (_GROUP_QUEUE | {"commitOffset": "offset"}, None),
    17: ({"topic": "topic", "readQueueNums": "count", "writeQueueNums": "count", "perm": "perm", "order": "truth",
          "topicFilterType": "word", "topicSysFlag": "flag", "attributes": "word", "defaultTopic": "topic"}, None),
    18: ({}, {"topicConfigList": [_TOPIC_CONFIG]}),
    21: ({}, None), 25: ({}, b"config"), 26: ({}, None), 28: ({}, None),
    29: (_QUEUE | {"timestamp": "time", "boundaryType": "word"}, None),
    30: (_QUEUE | {"committed": "truth"}, None), 31: (_QUEUE, None), 32: (_QUEUE, None),
    33: ({"offset": "offset", "topic": "topic"}, None),
    34: ({}, _HEARTBEAT),
    35: ({"clientID": "client", "producerGroup": "group", "consumerGroup": "group"}, None),
    36: ({"offset": "offset", "group": "group", "delayLevel": "count", "originMsgId": "id", "originTopic": "topic",
          "unitMode": "truth", "maxReconsumeTimes": "count"}, None),
    37: ({"producerGroup": "group", "tranStateTableOffset": "offset", "commitLogOffset": "offset",
          "commitOrRollback": "flag", "msgId": "id", "topic": "topic", "fromTransactionCheck": "truth",
          "transactionId": "id"}, None),
    38: ({"consumerGroup": "group"}, None),
    41: ({}, _LOCKS), 42: ({}, _LOCKS), 43: ({}, None), 45: ({}, None), 46: ({}, _CHECK),
    50: ({"accessKey": "word", "secretKey": "word", "admin": "truth", "topicPerms": "word", "groupPerms": "word",
          "defaultTopicPerm": "word", "defaultGroupPerm": "word", "whiteRemoteAddress": "address"}, None),
    51: ({"accessKey": "word"}, None), 52: ({}, None),
    53: ({"globalWhiteAddrs": "address", "aclFileFullPath": "word"}, None),
    60: ({}, None), 61: ({}, None),
    200: ({}, _GROUP_CONFIG), 201: ({}, None), 202: ({"topic": "topic"}, None),
    203: ({"consumerGroup": "group"}, None), 204: ({"producerGroup": "group"}, None),
    207: ({"groupName": "group", "cleanOffset": "truth"}, None),
    208: ({"consumerGroup": "group", "topic": "topic", "topicList": "word"}, None),
    215: ({"topic": "topic"}, None),
    222: (_TOPIC_GROUP | {"timestamp": "time", "queueId": "queue", "offset": "offset", "isForce": "truth"}, None),
    905: ({"minBrokerId": "count", "brokerName": "broker", "minBrokerAddr": "address", "offlineBrokerAddr": "address", "haBrokerAddr": "address"}, None),
    908: ({"masterFlushOffset": "offset"}, None),
    906: ({"masterHaAddress": "address", "masterFlushOffset": "offset", "masterAddress": "address"}, None), 907: ({}, None),
    223: (_TOPIC_GROUP | {"clientAddr": "address"}, None),
    225: ({}, {"groupConfigList": [_GROUP_CONFIG]}),
    300: ({"topic": "topic"}, None), 303: (_TOPIC_GROUP, None), 305: ({}, None), 306: ({}, None),
    307: ({"consumerGroup": "group", "clientId": "client", "jstackEnable": "truth"}, None),
    308: ({"compareGroup": "group", "topic": "topic", "filterGroups": "group"}, None),
    309: ({"consumerGroup": "group", "clientId": "client", "msgId": "id", "brokerName": "broker", "topic": "topic",
           "topicSysFlag": "flag", "groupSysFlag": "flag"}, None),
    314: ({"srcGroup": "group", "destGroup": "group", "topic": "topic", "offline": "truth"}, None),
    315: ({"statsName": "word", "statsKey": "topic"}, None), 316: ({}, None), 317: ({"isOrder": "truth"}, None),
    321: (_QUEUE | {"index": "offset", "count": "count", "consumerGroup": "group"}, None),
    323: ({"msgId": "id", "topic": "topic"}, None),
    324: (_REPLY, b"body"), 325: (_SEND_V2, b"body"),
    328: ({}, None), 329: ({}, None), 343: ({"group": "group"}, None), 345: (_TOPIC_GROUP, None),
    351: ({"topic": "topic"}, None), 352: ({"group": "group"}, None),
    353: (_TOPIC_GROUP | {"readable": "truth"}, None),
    370: ({"topic": "topic", "recallHandle": "id", "producerGroup": "group"}, None),
    400: ({}, _ASSIGNMENT), 401: ({}, _MODE), 402: ({}, None), 513: ({"topic": "topic"}, _TOPIC_CONFIG),
    354: ({"topic": "topic", "checkStoreTime": "time"}, None), 355: ({"configType": "word"}, None),
    902: ({"configPath": "word"}, None), 903: ({"brokerName": "word", "brokerClusterName": "word", "brokerId": "count"}, None),
    1007: ({}, None),
    1008: ({"masterAddress": "address", "masterEpoch": "count", "syncStateSetEpoch": "count", "masterBrokerId": "count"}, None),
    2001: ({}, b"g=1024\n"), 2002: ({}, b"g"), 2003: ({}, None),
    2004: ({"READ_AHEAD_MODE": "count"}, None), 30001: ({"consumerGroup": "group"}, None), 30002: ({}, None),
    30010: ({"member": "word"}, None), 30011: ({"member": "word"}, None), 30012: ({"member": "word"}, None),
    3001: ({"username": "word"}, _USER), 3002: ({"username": "word"}, _USER), 3003: ({"username": "word"}, None),
    3004: ({"username": "word"}, None), 3005: ({"filter": "word"}, None),
    3006: ({"subject": "word"}, _ACL), 3007: ({"subject": "word"}, _ACL),
    3008: ({"subject": "word", "policyType": "word", "resource": "word"}, None),
    3009: ({"subject": "word"}, None), 3010: ({"subjectFilter": "word", "resourceFilter": "word"}, None),
    200050: (_POP, None), 200051: (_ACK, None), 200052: (_GROUP_QUEUE | {"maxMsgNums": "count"}, None),
    200053: (_ACK | {"invisibleTime": "hidden"}, None),
    200054: (_GROUP_QUEUE | {"pollTime": "wait", "bornTime": "time", "order": "truth", "attemptId": "id"}, None),
    200055: (_GROUP_QUEUE, None), 200056: ({}, None), 200151: ({}, _BATCH_ACK),
}  # fmt: skip
NAMESERVER: dict[int, tuple[Mapping[str, str], object]] = {
    100: (_KV | {"value": "word"}, None), 101: (_KV, None), 102: (_KV, None),
    103: (_IDENTITY | {"haServerAddr": "address", "compressed": "truth", "bodyCrc32": "nothing",
                       "heartbeatTimeoutMillis": "patience", "enableActingMaster": "truth"}, _REGISTRATION),
    104: (_IDENTITY, None), 105: ({"topic": "topic", "acceptStandardJsonOnly": "truth"}, None), 106: ({}, None),
    205: ({"brokerName": "broker"}, None), 206: ({}, None), 216: ({"topic": "topic", "clusterName": "cluster"}, None),
    217: ({"topic": "topic"}, _ROUTE), 219: ({"namespace": "word"}, None), 224: ({"cluster": "cluster"}, None),
    304: ({}, None), 311: ({}, None), 312: ({}, None), 313: ({}, None), 318: ({}, b"config"), 319: ({}, None), 30003: ({}, None),
    322: (_IDENTITY, _VERSION), 327: ({"brokerName": "broker"}, None),
    901: ({"clusterName": "cluster", "brokerName": "broker"}, None),
    904: ({"clusterName": "cluster", "brokerAddr": "address", "brokerName": "broker"}, None),
}  # fmt: skip
_ABSURD = [
    0,
    -1,
    1 << 31,
    1 << 63,
    -(1 << 63),
    1.5,
    "",
    "x" * 2_000,
    None,
    True,
    [],
    {},
    [[]],
    {"a": {"a": []}},
    "\ud800",
]


class FittingRequests:
    """An endless source of requests that fit their codes; the same seed gives the same frames."""

    def __init__(
        self, table: Mapping[int, tuple[Mapping[str, str], object]], seed: int
    ) -> None:
        self.table = table
        self.codes = [*table]
        self.chance = random.Random(seed)

    def frame(self, opaque: int) -> bytes:
        """The next request."""
        code = self.chance.choice(self.codes)
        kinds, body = self.table[code]
        fields = {
            name: value
            for name, kind in kinds.items()
            if (value := self._value(KINDS[kind])) is not None
        }
        return json_frame(code, fields, self._body(body), opaque=opaque)

    def _value(self, kind: Kind) -> str | None:
        roll = self.chance.random()
        if roll < 0.03:
            return None
        # Who asks to wait for a month may have to, and who promises to be heard each ms is not.
        is_nasty = roll < 0.08 and kind not in (KINDS["wait"], KINDS["patience"])
        value = self.chance.choice(NASTY) if is_nasty else kind(self.chance)
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value)

    def _body(self, form: object) -> bytes:
        if form is None:
            return b"" if self.chance.random() < 0.95 else self.chance.randbytes(40)
        if form == b"config":
            return self.chance.choice(CONFIGURATIONS)
        if form == b"batch":
            return b"".join(self._inner() for _ in range(self.chance.randrange(5)))
        if isinstance(form, bytes):
            return self.chance.choice([b"", form, self.chance.randbytes(100), b"x" * 5_000])
        changed = json.loads(json.dumps(form))
        for _ in range(self.chance.choice([0, 0, 1, 1, 2, 3])):
            changed = self._changed(changed)
        text = json.dumps(changed).encode("utf-8", "surrogatepass")
        return (
            text
            if self.chance.random() < 0.95
            else text[: self.chance.randrange(len(text) + 1)]
        )

    def _changed(self, value: Any) -> Any:
        """The value with one part of it replaced, left out or repeated."""
        if isinstance(value, dict) and value and self.chance.random() < 0.9:
            name = self.chance.choice([*value])
            if self.chance.random() < 0.1:
                return {key: each for key, each in value.items() if key != name}
            return {**value, name: self._changed(value[name])}
        if isinstance(value, list) and value and self.chance.random() < 0.7:
            if self.chance.random() < 0.2:
                return value * self.chance.randint(0, 20)
            return [self._changed(value[0]), *value[1:]]
        choices = [*_ABSURD, *TOPICS, *GROUPS]
        return self.chance.choice(choices)

    def _inner(self) -> bytes:
        """A message within a batch (docs/format/batch.md), its sizes a lie now and then."""
        body = self.chance.randbytes(self.chance.randrange(30))
        properties = self.chance.choice(PROPERTIES).encode()
        size = 22 + len(body) + len(properties)
        if self.chance.random() < 0.1:
            size = self.chance.choice([0, -1, 1 << 30, size - 1, size + 1])
        return (
            struct.pack(">iiiii", size, 0, 0, 0, len(body))
            + body
            + struct.pack(">h", len(properties))
            + properties
        )
