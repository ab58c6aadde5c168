"""Cold data control: who may read what is not in memory, and who has to wait."""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cometmq.broker.send.fast_failure import ColdReads
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.cold_readers import GROUPS_MAX, ColdReaders
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.store.reader import GetResult, GetStatus
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld
from tests.unit.broker.billing import pull_fields, send
from tests.unit.broker.conftest import serve
from tests.unit.broker.list_caller import ListCaller

LIMITED = BrokerSettings(is_cold_limited=True, cold_group_max=1_000, cold_max=3_000)


def is_held_back(cold: ColdReaders, group: str) -> bool:
    with contextlib.suppress(RequestError):
        cold.check(group)
        return False
    return True


def test_a_group_beyond_its_bytes_waits_for_the_next_5_seconds(clock):
    cold = ColdReaders(LIMITED, clock)
    cold.check("slow")
    cold.add("slow", 999)
    assert not is_held_back(cold, "slow")
    cold.add("slow", 1)
    assert is_held_back(cold, "slow")
    assert not is_held_back(cold, "other")
    clock.turn(5)
    assert not is_held_back(cold, "slow")


def test_a_threshold_of_its_own_counts_before_that_of_all():
    cold = ColdReaders(LIMITED, HandClock())
    cold.check("big")
    cold.change({"big": 2_000})
    cold.add("big", 1_500)
    assert not is_held_back(cold, "big")
    cold.remove("big")
    assert is_held_back(cold, "big")


def test_where_all_read_too_much_each_that_has_read_waits():
    cold = ColdReaders(LIMITED, HandClock())
    for group in ("a", "b", "c", "d"):
        cold.check(group)
        cold.add(group, 800)
    assert is_held_back(cold, "a")
    assert not is_held_back(cold, "new")


def test_it_is_off_by_default():
    cold = ColdReaders(BrokerSettings(), HandClock())
    cold.add("slow", 1 << 40)
    assert not is_held_back(cold, "slow")
    assert cold.to_json()["runtimeTable"] == {}


def test_thresholds_have_a_bound():
    cold = ColdReaders(LIMITED, HandClock())
    cold.change({f"g{number}": 1 for number in range(GROUPS_MAX)})
    with pytest.raises(RequestError, match="remove some"):
        cold.change({"one-more": 1})
    cold.change({"g1": 2})


async def test_thresholds_are_changed_and_told_over_the_wire(served):
    await served.done(2001, body=b"readers=4096\nspare=8192\n")
    table = json.loads((await served.ask(2003)).body)
    assert table["configTable"] == {"readers": 4096, "spare": 8192}
    assert table["cgColdReadThreshold"] == 3 << 20
    await served.done(2002, body=b"readers")
    assert json.loads((await served.ask(2003)).body)["configTable"] == {"spare": 8192}


async def test_a_pull_of_a_group_beyond_its_bytes_is_answered_busy_and_others_are_served(
    tmp_path, monkeypatch
):
    async with serve(tmp_path / "store") as served:
        await send(served, bytes(900))
        await send(served, bytes(900))
    monkeypatch.setattr(RealDisk, "pread_nowait", lambda *_: None)  # Nothing is in memory.
    limited: dict[str, Any] = {"is_cold_limited": True, "cold_group_max": 1_000}
    async with serve(tmp_path / "store", HandClock(), **limited) as served:

        async def code_of(group: str) -> int:
            fields = {**pull_fields(0), "consumerGroup": group}
            answer = await served.ask(RequestCode.PULL_MESSAGE, fields)
            if answer.code == ResponseCode.SYSTEM_BUSY:
                assert "reading cold data" in (answer.remark or "")
            return answer.code

        assert [await code_of("slow") for _ in range(2)] == [
            ResponseCode.SUCCESS,
            ResponseCode.SYSTEM_BUSY,
        ]
        assert await code_of("other") == ResponseCode.SUCCESS
        table = json.loads((await served.ask(2003)).body)
        assert table["runtimeTable"]["slow"]["coldAcc"] > 1_800


@pytest.mark.parametrize(
    "body",
    [
        b"g=much\n",
        b"g=-1\n",
        b"g=" + b"9" * 5_000,
        b"bad?name=1\n",
        b"=1\n",
        "g=\u0661\n".encode(),
        b"g=1\nh=x\n",
    ],
)
async def test_thresholds_that_are_none_are_refused_and_nothing_changes(served, body):
    refused = await served.ask(2001, body=body)
    assert refused.code in (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR)
    assert json.loads((await served.ask(2003)).body)["configTable"] == {}
    assert (await served.ask(2002, body=b"\xff\xfe")).code == ResponseCode.INVALID_PARAMETER


FOUND = GetResult(GetStatus.FOUND, 1, 0, 1)


@pytest.mark.parametrize(("seconds", "is_on", "is_refused"), [
    (4.9, True, False), (5.0, True, True), (60, False, False),
])  # fmt: skip
async def test_the_time_before_the_pool_counts(seconds, is_on, is_refused):
    clock, may_go = HandClock(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        reads = ColdReads(clock, BrokerSettings(is_fast_failure=is_on))
        pool.submit(may_go.wait)
        steps = reads.read(lambda: FOUND, ListCaller())
        waiting = Machines(LoopWorld(pool), "reads").run(steps)
        clock.turn(seconds)
        may_go.set()
        if is_refused:
            with pytest.raises(RequestError, match="start flow control") as refused:
                await waiting
            assert refused.value.code == ResponseCode.SYSTEM_BUSY
        else:
            assert await waiting is FOUND


def test_nothing_is_read_for_who_went_away_meanwhile():
    reads, caller, read = ColdReads(HandClock(), BrokerSettings()), ListCaller(), []

    def cold() -> GetResult:
        read.append(1)
        return FOUND

    world = HandWorld()
    outcome = world.begin(reads.read(cold, caller))
    caller.is_gone = True
    world.settle()
    with pytest.raises(ConnectionLost):
        outcome.get()
    assert read == []
