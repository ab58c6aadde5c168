"""With light queues all offsets lie in lmqConsumerOffset.json: what either broker kept the other goes on with."""

import json
import signal
from pathlib import Path

import pytest

from cometmq.codec.fastjson import loads
from cometmq.model.codes import RequestCode
from tests.interop import reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.frames import ask
from tests.support.load import send_all
from tests.support.processes import Program

TOPIC = "LightOffsets"
GROUPS = ("plain", "%LMQ%light")
SETTINGS: dict[str, object] = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": 2,
    "enableLmq": "true",
    "enableMultiDispatch": "true",
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def place(group: str) -> dict[str, str]:
    return {"consumerGroup": group, "topic": TOPIC, "queueId": "0"}


def commit(broker: Program, group: str, offset: int) -> None:
    fields = place(group) | {"commitOffset": str(offset)}
    header, _ = ask(broker.address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert header["code"] == 0, header


def committed(broker: Program, group: str) -> int:
    header, _ = ask(broker.address, RequestCode.QUERY_CONSUMER_OFFSET, place(group))
    assert header["code"] == 0, header
    return int(header["extFields"]["offset"])


def make_group(broker: Program, group: str) -> None:
    body = json.dumps({"groupName": group, "consumeEnable": True}).encode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert ask(broker.address, code, {}, body)[0]["code"] == 0


def test_offsets_of_plain_and_light_groups_change_hands(tmp_path: Path):
    makers = (processes.broker, reference.broker, processes.broker)
    with handover(tmp_path, SETTINGS, nameserver=processes.nameserver) as (_, begin):
        for turn, make in enumerate(makers, start=1):
            broker = begin(make)
            if turn == 1:
                assert send_all(broker.address, TOPIC, [b"x"] * 20, queues=2) == [0] * 20
                for group in GROUPS:
                    make_group(broker, group)
            else:
                assert [committed(broker, group) for group in GROUPS] == [turn - 1, turn]
            for group, offset in zip(GROUPS, (turn, turn + 1), strict=True):
                commit(broker, group, offset)
            broker.end(signal.SIGTERM)
    saved = loads((tmp_path / "broker/store/config/lmqConsumerOffset.json").read_bytes())
    assert saved["lmqOffsetTable"] == {f"{TOPIC}@{GROUPS[1]}": 4}
    assert saved["offsetTable"][f"{TOPIC}@{GROUPS[0]}"] == {0: 3}
