"""What a slave has of its master beside the log: groups, modes, how far delays and the timer are.

Everything is read as JSON or by byte position, from what each broker answers or keeps; none of our codecs reads it.
"""

import json
import re
import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

from cometmq import Admin, Message, Producer
from cometmq.model.codes import RequestCode
from cometmq.model.group import GroupConfig
from tests.support.frames import ask

TOPIC, GROUP = "Timed", "Replaying"
LEVEL = 1  # The first delay, one second.
# timercheckpoint: read time, timerlog, queue offset, the master's queue offset; int64 each.
_CHECK = struct.Struct(">qqqq")
_INTEGER_KEY = re.compile(r"([{,]\s*)(\d+)\s*:")


def fill_tables(names: str, address: str, *, has_timer: bool) -> None:
    """Give a master a group, a mode, delays and timed messages; of each kind one that is delivered and one that waits."""
    group = GroupConfig(GROUP, broadcast_enabled=False, retry_max_times=3, retry_queues=2)
    with Admin(names) as admin:
        admin.topics.create(TOPIC, queues=1)
        admin.groups.create(group)
    soon, late = timedelta(seconds=1), timedelta(hours=1)
    with Producer(names) as producer:
        producer.send(Message(TOPIC, b"soon", delay_level=LEVEL))
        producer.send(Message(TOPIC, b"late", delay_level=LEVEL + 10))
        if not has_timer:
            return
        producer.send(Message(TOPIC, b"timed soon", deliver=soon))
        producer.send(Message(TOPIC, b"timed late", deliver=late))
    mode = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 2}
    said, _ = ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode())
    assert said["code"] == 0, said


def tables_of(address: str, folder: Path, *, has_timer: bool) -> dict[str, Any]:
    """All of it, as a broker has it now; what it does not have yet is None."""
    group = _table(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).get(
        "subscriptionGroupTable", {}
    )
    topic = _table(address, RequestCode.GET_ALL_TOPIC_CONFIG).get("topicConfigTable", {})
    delays = folder / "store" / "config" / "delayOffset.json"
    offsets = _load(delays.read_text())["offsetTable"] if delays.exists() else {}
    found = {
        "group": group.get(GROUP),
        "topic": topic.get(TOPIC),
        "delivered of the level": offsets.get(str(LEVEL)),
    }
    if not has_timer:
        return found
    modes = _table(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    counts = _table(address, RequestCode.GET_TIMER_METRICS)
    _, check = ask(address, RequestCode.GET_TIMER_CHECK_POINT)
    return {
        **found,
        "mode": modes.get("messageRequestModeMap", {}).get(TOPIC, {}).get(GROUP),
        "waiting in the timer": counts.get("timingCount", {}).get(TOPIC, {}).get("count"),
        "timer's queue": _CHECK.unpack_from(check)[3] if len(check) >= _CHECK.size else None,
    }


def check_filled(tables: dict[str, Any]) -> None:
    """What the master itself must have by now."""
    assert tables["delivered of the level"] == 1, tables
    assert tables["group"]["retryMaxTimes"] == 3
    assert tables["group"]["retryQueueNums"] == 2
    assert tables["group"]["consumeBroadcastEnable"] is False
    if "mode" in tables:
        assert tables["mode"]["mode"] == "POP"
        assert tables["waiting in the timer"] == 1
        assert tables["timer's queue"] == 2


def difference(master: dict[str, Any], slave: dict[str, Any]) -> str:
    """Where a slave differs, in what both versions have; "": nowhere."""
    lines = [
        f"{name}: {value} at the master, {slave[name]} at the slave"
        for name, value in master.items()
        if not _is_same(value, slave[name])
    ]
    return "; ".join(lines)


def _is_same(one: Any, other: Any) -> bool:
    """Fields that only a later version has count for nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = one.keys() & other.keys()
        return len(both) >= 4 and all(one[name] == other[name] for name in both)
    return bool(one == other)


def _table(address: str, code: int) -> dict[str, Any]:
    _, body = ask(address, code)
    return _load(body.decode()) if body else {}


def _load(text: str) -> dict[str, Any]:
    """JSON as fastjson writes it: keys that are numbers stand bare."""
    loaded: dict[str, Any] = json.loads(_INTEGER_KEY.sub(r'\1"\2":', text))
    return loaded
