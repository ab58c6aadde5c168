"""Very many requests that wait for messages: they wake, expire and weigh without anybody else noticing."""

import time

import pytest

from tests.attacks import by_hand
from tests.attacks.stranger import Stranger
from tests.support.frames import json_frame
from tests.support.good_client import GoodClient
from tests.support.memory import MIB, MemoryWatch
from tests.support.request_fields import pop_fields, pull_fields

PULL, POP = 11, 200050
SUCCESS, SYSTEM_BUSY, PULL_NOT_FOUND = 0, 2, 19
SUSPENDED = "6"  # PullSysFlag: FLAG_SUSPEND and FLAG_SUBSCRIPTION


def send(address: str, topic: str, tag: str) -> None:
    """A message, into the topic's only queue."""
    with Stranger(address) as peer:
        by_hand.send(peer, topic, properties=f"TAGS\1{tag}\2", queues=1)


def pull(topic: str, tag: str, *, millis: int = 60_000, **more: str) -> dict[str, str]:
    return pull_fields(
        topic,
        offset=1,
        sysFlag=SUSPENDED,
        suspendTimeoutMillis=millis,
        subscription=tag,
        **more,
    )


def pop(topic: str, *, millis: int, **more: str) -> dict[str, str]:
    fields = {"consumerGroup": "popping", "maxMsgNums": "1", "bornTime": "0", "exp": "never"}
    return pop_fields(topic, 0, pollTime=millis, **fields | more)


def send_some(peer: Stranger, code: int, fields: list[dict[str, str]]) -> None:
    """These requests, a few at a time: the attack is what waits, and not how it came."""
    for start in range(0, len(fields), 50):
        peer.socket.sendall(
            b"".join(
                json_frame(code, each, opaque=start + number)
                for number, each in enumerate(fields[start : start + 50])
            )
        )
        time.sleep(0.005)


def test_a_message_that_wakes_half_of_thousands_of_pulls(standing):
    """5,000 pulls wait on one queue, half of them for another tag: a message wakes its half, and holds nobody up."""
    send(standing.address, "Woken", "first")
    with Stranger(standing.address) as one, Stranger(standing.address) as other:
        for peer in (one, other):
            send_some(peer, PULL, [pull("Woken", "ab"[number % 2]) for number in range(2_500)])
        with GoodClient(standing.address, standing.pid) as good:
            send(standing.address, "Woken", "a")
            for peer in (one, other):
                assert {peer.read().code for _ in range(1_250)} == {SUCCESS}
        good.check()


def test_thousands_of_pulls_that_expire_at_once(standing):
    """8,000 pulls whose time is over in the same moment are answered in steps."""
    send(standing.address, "Expired", "first")
    with Stranger(standing.address) as one, Stranger(standing.address) as other:
        until = time.monotonic() + 6
        for peer in (one, other):
            for _ in range(8):
                millis = int((until - time.monotonic()) * 1000)
                send_some(peer, PULL, [pull("Expired", "a", millis=millis)] * 500)
        with GoodClient(standing.address, standing.pid) as good:
            for peer in (one, other):
                assert {peer.read().code for _ in range(4_000)} == {PULL_NOT_FOUND}
        good.check()


def test_a_connection_that_holds_all_it_may_takes_no_place_of_others(standing):
    """One connection may hold 4,096 pulls; the next one is busy, and another connection's pull waits as it should."""
    send(standing.address, "Full", "first")
    with (
        GoodClient(standing.address, standing.pid) as good,
        Stranger(standing.address) as greedy,
        Stranger(standing.address) as honest,
    ):
        send_some(greedy, PULL, [pull("Full", "b")] * 4_200)
        refused = [greedy.read() for _ in range(4_200 - 4_096)]
        assert {answer.code for answer in refused} == {SYSTEM_BUSY}
        assert "pull again later" in refused[0].remark
        honest.send(PULL, pull("Full", "a"))
        honest.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            honest.read()
        honest.socket.settimeout(10)
        send(standing.address, "Full", "a")
        assert honest.read().code == SUCCESS
    good.check()


@pytest.mark.parametrize("junk", ["a field nobody asked for", "tags", "an expression"])
def test_held_pulls_are_weighed(standing, junk):
    """4,000 pulls with 50 KB of junk each, as fields or as a subscription, take a few megabytes of the broker."""
    send(standing.address, "Junk", "first")
    filled = "x" * 50_000
    more = {
        "a field nobody asked for": {"junk": filled},
        "tags": {"subscription": "||".join(f"tag{number}" for number in range(6_000))},
        "an expression": {
            "subscription": f"a = '{filled[:30_000]}'",
            "expressionType": "SQL92",
        },
    }[junk]
    with MemoryWatch(standing.pid) as watch, Stranger(standing.address) as peer:
        count = 2_000 if junk == "a field nobody asked for" else 500
        for number in range(count):
            asked = {**pull("Junk", f"a{number}"), **more}
            if junk != "a field nobody asked for":
                asked["subscription"] = asked["subscription"].replace("x", "y", number % 50)
                asked["subscription"] += (
                    f" || z{number}" if junk == "tags" else f" OR z={number}"
                )
            peer.send(PULL, asked)
            if number % 20 == 19:
                time.sleep(0.005)
        time.sleep(0.5)
    watch.check(growth_max=40 * MIB)
    watch.check_back()


def test_held_pops_are_weighed(standing):
    """1,000 pops with 50 KB of junk each take a few megabytes of the broker."""
    send(standing.address, "PoppedJunk", "first")
    with MemoryWatch(standing.pid) as watch, Stranger(standing.address) as peer:
        asked = pop("PoppedJunk", millis=60_000, junk="x" * 50_000)
        for _ in range(100):
            send_some(peer, POP, [asked] * 10)
        time.sleep(0.5)
    watch.check(growth_max=40 * MIB)
    watch.check_back()
