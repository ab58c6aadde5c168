"""A change of settings that was answered SUCCESS holds for every reader, and each key that is marked may change."""

import json
from enum import Enum

import pytest

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.record import decode_records
from cometmq.model.settings import setting_keys, settings_table
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.load import send_frame
from tests.support.processes import wait_until
from tests.support.request_fields import pop_fields, pull_fields

PULL, UPDATE_CONFIG, GET_CONFIG, ROUTE, POP = 11, 25, 26, 105, 200050
NO_PERMISSION, POLLING_TIMEOUT = 16, 210
TOPIC = "TBW102"
SUBSCRIPTION_IN_REQUEST = 4


@pytest.fixture(scope="module")
def broker(nameserver, tmp_path_factory, access):
    settings = {"enablePropertyFilter": "true"}
    folder = tmp_path_factory.mktemp("broker")
    with processes.broker(folder, nameserver.address, settings=settings) as program:
        yield program


@pytest.fixture
def peer(broker):
    with Stranger(broker.address) as peer:
        yield peer


def change(peer: Stranger, **values: object) -> None:
    body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
    answer = peer.ask(UPDATE_CONFIG, {}, body)
    assert (answer.code, answer.remark) == (0, "")


def pull(peer: Stranger, kind: str, expression: str) -> tuple[int, int]:
    """The answer's code, and how many messages it has."""
    fields = pull_fields(
        TOPIC,
        maxMsgNums=10,
        sysFlag=SUBSCRIPTION_IN_REQUEST,
        subscription=expression,
        expressionType=kind,
    )
    answer = peer.ask(PULL, fields)
    return answer.code, len(decode_records(answer.body)) if answer.code == 0 else 0


def pop(peer: Stranger, kind: str, expression: str, group: str) -> int:
    fields = pop_fields(
        TOPIC, 0, consumerGroup=group, maxMsgNums=10, expType=kind, exp=expression
    )
    answer = peer.ask(POP, fields)
    assert answer.code == 0, answer
    return len(decode_records(answer.body))


def most_pulled(peer: Stranger, kind: str, expression: str) -> int:
    """The most that one of some pulls gets: by an SQL92 expression it looks for 5 ms, in which a busy machine does little."""
    return max(pull(peer, kind, expression)[1] for _ in range(40 if kind == "SQL92" else 1))


def test_a_bound_of_pulls_holds_for_every_pull(peer):
    for number in range(10):
        peer.socket.sendall(send_frame(TOPIC, b"x", opaque=1_000 + number, queue_id=0))
        assert peer.read().code == 0
    kinds = (("TAG", "*"), ("TAG", "a || b"), ("SQL92", "a IS NULL"))
    assert [most_pulled(peer, *kind) for kind in kinds] == [10, 0, 10]
    change(peer, maxTransferCountOnMessageInMemory=2)
    assert [most_pulled(peer, *kind) for kind in kinds] == [2, 0, 2]
    change(peer, maxTransferCountOnMessageInMemory=32, maxTransferBytesOnMessageInMemory=1)
    assert [most_pulled(peer, *kind) for kind in kinds] == [1, 0, 1]
    assert [pop(peer, *kind, f"g{n}") for n, kind in enumerate((kinds[0], kinds[2]))] == [1, 1]
    change(peer, maxTransferBytesOnMessageInMemory=262_144)


def test_every_key_that_is_marked_as_changeable_may_change(peer):
    defaults = settings_table(BrokerSettings())
    keys = [key for key in setting_keys(BrokerSettings) if key.is_remote]
    assert len(keys) >= 13
    for key in keys:
        old = defaults.get(key.name, "2")  # inSyncReplicas has none.
        new = str(old == "false").lower() if isinstance(key.default, bool) else "4"
        if isinstance(key.default, Enum):
            new = next(name for name in type(key.default).__members__ if name != old)
        change(peer, **{key.name: new})
        in_force = decode_java_properties(peer.ask(GET_CONFIG).body)
        assert in_force[key.name] == new
        change(peer, **{key.name: old})


def test_the_permission_of_a_broker_changes_its_routes_and_its_pulls(peer, nameserver):
    def permissions() -> list[int]:
        with Stranger(nameserver.address) as client:
            answer = client.ask(ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"})
        return [data["perm"] for data in json.loads(answer.body)["queueDatas"]]

    change(peer, brokerPermission=2)
    assert pull(peer, "TAG", "*")[0] == NO_PERMISSION
    wait_until(lambda: permissions() == [2], seconds=10, what="the route says it")
    change(peer, brokerPermission=6)
    assert pull(peer, "TAG", "*")[0] == 0
    wait_until(lambda: permissions()[0] & 6 == 6, seconds=10, what="the route says it again")
