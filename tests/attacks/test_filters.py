"""Filter expressions of a bad peer: long ones, deep ones, ones that look through all there is, and very many of them."""

import json
import time

import pytest

from tests.attacks.by_hand import send
from tests.attacks.stranger import Stranger
from tests.support.frames import read_frame
from tests.support.good_client import GoodClient
from tests.support.load import send_frame
from tests.support.memory import MemoryWatch
from tests.support.request_fields import pop_fields, pull_fields

PULL, CHECK_CLIENT_CONFIG, POP = 11, 46, 200050
SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY, PARSE_FAILED, POLLING_TIMEOUT = (
    0,
    19,
    20,
    23,
    210,
)
IN_REQUEST = "4"  # PullSysFlag.FLAG_SUBSCRIPTION
TOPIC = "Large"
MESSAGES = 250
# As long as the expressions of the attack may be, 256 comparisons; none of them is ever true.
LONGEST = " OR ".join(f"q={number}" for number in range(1, 256))


def pull(
    expression: str, offset: int = 0, *, topic: str = "Small", kind: str = "SQL92"
) -> dict[str, str]:
    return pull_fields(
        topic, offset=offset, sysFlag=IN_REQUEST, subscription=expression, expressionType=kind
    )


def pop(expression: str) -> dict[str, str]:
    """By a group that has popped nothing yet, so that it begins at the first message, run again or not."""
    group = f"popping{time.time_ns()}"
    return pop_fields(
        TOPIC, consumerGroup=group, pollTime=10000, expType="SQL92", exp=expression
    )


def check(expression: str) -> bytes:
    wish = {"topic": TOPIC, "subString": expression, "expressionType": "SQL92", "subVersion": 1}
    return json.dumps({"clientId": "c", "group": "g", "subscriptionData": wish}).encode()


@pytest.fixture(scope="module")
def broker(standing):
    """One for all attacks: it outlives them."""
    with Stranger(standing.address) as peer:
        assert send(peer, "Small", queues=1).code == SUCCESS
    return standing


@pytest.fixture(scope="module")
def filled(broker):
    """A broker that holds messages with 30 KB of properties, in one queue."""
    properties = "".join(f"k{number:04}\1{number}\2" for number in range(2_500))
    with Stranger(broker.address) as peer:
        for _ in range(MESSAGES):
            assert send(peer, TOPIC, properties=properties, queues=1).code == SUCCESS
    return broker


def test_a_filter_of_thousands_of_terms_holds_nobody_up(filled):
    """An expression of 3,000 terms is refused by name, at once, with the code that Java has for bad ones."""
    terms = " OR ".join(f"q={number}" for number in range(3_000))
    words = " OR ".join(f"p{number} CONTAINS 'zz'" for number in range(1_300))
    with GoodClient(filled.address, filled.pid) as good, Stranger(filled.address) as peer:
        for bad in (terms, words):
            answer = peer.ask(PULL, pull(bad, topic=TOPIC))
            assert answer.code == PARSE_FAILED, answer
            assert "more than" in answer.remark
            assert len(answer.remark) < 500
    good.check()


def test_a_long_filter_over_large_messages_is_done_in_steps(filled):
    """Four peers at once pull by 255 comparisons over messages of 30 KB: each gets on, and nobody waits."""
    peers = [Stranger(filled.address) for _ in range(4)]
    with GoodClient(filled.address, filled.pid) as good:
        offsets = dict.fromkeys(peers, 0)
        while offsets:
            for number, (peer, offset) in enumerate(offsets.items()):
                peer.send(PULL, pull(f"{LONGEST} OR z={number}", offset, topic=TOPIC))
            for peer, offset in list(offsets.items()):
                answer = peer.read()
                assert answer.code == PULL_RETRY_IMMEDIATELY, answer
                offsets[peer] = int(answer.fields["nextBeginOffset"])
                assert offsets[peer] > offset
                if offsets[peer] >= MESSAGES:
                    del offsets[peer]
    good.check()
    for peer in peers:
        peer.socket.close()


def test_a_pop_by_a_long_filter_is_done_in_steps(filled):
    """A pop goes on through what its filter does not let through, and keeps nobody waiting meanwhile."""
    with GoodClient(filled.address, filled.pid) as good, Stranger(filled.address) as peer:
        opaque = peer.send(POP, pop(LONGEST + " OR wanted=1"))
        with Stranger(filled.address) as other:
            frame = send_frame(
                TOPIC, b"x", opaque=7, queue_id=0, queues=1, properties="wanted\0011\2"
            )
            other.socket.sendall(frame)
            read_frame(other.socket)
        answer = peer.read()
    assert (answer.opaque, answer.code) == (opaque, SUCCESS), answer
    good.check()


def test_many_long_expressions_are_compiled_one_a_turn(broker):
    """Connections that bring ever new expressions of the greatest length keep nobody else waiting."""
    peers = [Stranger(broker.address) for _ in range(4)]
    with GoodClient(broker.address, broker.pid) as good, MemoryWatch(broker.pid) as watch:
        for turn in range(4):
            for number, peer in enumerate(peers):
                texts = ",".join(f"'{turn}{number}{text}'" for text in range(2_030))
                peer.send(PULL, pull(f"a IN ({texts})"))
                peer.send(CHECK_CLIENT_CONFIG, {}, check(f"b IN ({texts})"))
            for peer in peers:
                assert {peer.read().code for _ in range(2)} == {SUCCESS, PULL_RETRY_IMMEDIATELY}
    good.check()
    watch.check()
    for peer in peers:
        peer.socket.close()
    watch.check_back()


@pytest.mark.parametrize(
    "nested",
    ["a" + "=1" * 1_500, "a" + " IS NULL" * 1_500, "a" + " CONTAINS 'b'" * 1_500, "a" + " <> 1" * 1_500],
)  # fmt: skip
def test_a_left_nested_expression_is_refused_by_name(broker, nested):
    """Comparisons of comparisons are levels too: no RecursionError, and the log does not grow by what was sent."""
    with Stranger(broker.address) as peer:
        before = broker.log.stat().st_size
        with GoodClient(broker.address, broker.pid) as good:
            for _ in range(10):
                answer = peer.ask(PULL, pull(nested))
                assert answer.code == PARSE_FAILED, answer
                assert (
                    "CONTAINS is used more than 64 times"
                    if "CONTAINS" in nested
                    else "more than 100"
                ) in answer.remark
    good.check()
    assert broker.log.stat().st_size - before < 2_000


def test_bad_expressions_do_not_fill_the_log(broker):
    """80 bad expressions of 3 KB, by pulls and by questions, leave next to nothing in the log."""
    with Stranger(broker.address) as peer:
        before = broker.log.stat().st_size
        for number in range(40):
            bad = f"a{number}" + ("=1" * 1_500 if number % 2 else " IS NULL" * 370)
            assert peer.ask(PULL, pull(bad)).code == PARSE_FAILED
            assert peer.ask(CHECK_CLIENT_CONFIG, {}, check(bad)).code == PARSE_FAILED
        refused = peer.ask(PULL, pull(" || " * 700, kind="TAG"))
        assert refused.code == PARSE_FAILED
        assert len(refused.remark) < 500
    assert broker.log.stat().st_size - before < 2_000


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_expressions_are_kept_by_their_bytes(broker, kind):
    """Hundreds of expressions of up to 60 KB fill no cache beyond its few megabytes."""
    with (
        Stranger(broker.address) as peer,
        GoodClient(broker.address, broker.pid) as good,
        MemoryWatch(broker.pid) as watch,
    ):
        for number in range(80 if kind == "TAG" else 200):
            tags = "||".join(f"{number}_{tag}" for tag in range(5_000))
            terms = " OR ".join(f"p{number}={term}" for term in range(255))
            asked = pull(tags if kind == "TAG" else terms, kind=kind)
            assert peer.ask(PULL, asked).code == PULL_RETRY_IMMEDIATELY
    watch.check(growth_max=40 << 20)
    watch.check_back()
    good.check()
