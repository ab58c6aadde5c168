"""Two gRPC proxies on one port in front of two brokers: the official Python client, kills, and handles of another proxy."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest

from cometmq import Admin, AsyncAdmin, ClientSettings
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.heartbeat import ConsumerPart, ProducerPart
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.embedded import AsyncEmbedded
from cometmq.model.credentials import Credentials
from cometmq.model.flags import TRANSACTION_COMMIT
from cometmq.model.group import GroupConfig
from cometmq.model.rights import EVERYBODY
from cometmq.model.subscription import SQL92, Subscription
from cometmq.net.tasks import Tasks
from cometmq.proxy.cluster.backend import ClusterBackend
from cometmq.proxy.cluster.members import ClusterMembers
from cometmq.proxy.cluster.waits import WAITS_OF_CLIENT_MAX, Waits
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.services.commands import StreamCommands
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.sent_messages import SendLimits
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.on_loop import LoopWorld, Machines
from tests.e2e.test_grpc_clients import SCENES, make_places, play, play_over_a_kill
from tests.interop.clients import Result
from tests.support import processes
from tests.support.accounts import (
    ADMIN,
    CANARY,
    account,
    guarded_cluster,
    inner_setting,
    write_accounts,
)
from tests.support.grpc_raw import RawGrpc, resource, seconds
from tests.support.processes import Program, free_port, wait_until

_BROKERS = ("broker-a", "broker-b")


class ProxiedCluster:
    """A nameserver, two brokers, and two proxies, of which the first two share a port."""

    def __init__(self, folder: Path, stack: ExitStack, **more: str) -> None:
        """`more`: Settings of the brokers."""
        self.folder = folder
        self.names = stack.enter_context(processes.nameserver(folder / "names"))
        timely = {"transactionTimeOut": 1000, "transactionCheckInterval": 1000}
        self.brokers = {
            name: stack.enter_context(
                processes.broker(
                    folder / name, self.names.address,
                    settings={"brokerName": name, "recallMessageEnable": "true", **timely, **more},
                )
            )
            for name in _BROKERS
        }  # fmt: skip
        self.admin = stack.enter_context(Admin(self.names.address))
        self.port = free_port()
        self.proxies = [
            stack.enter_context(self.proxy(f"proxy-{number}", self.port)) for number in (1, 2)
        ]

    def proxy(self, name: str, port: int | None = None, **settings: object) -> Program:
        folder = self.folder / name
        return processes.proxy(folder, self.names.address, port=port or free_port(), **settings)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def proxied(folder: Path, **more: str) -> Iterator[ProxiedCluster]:
    with ExitStack() as stack:
        yield ProxiedCluster(folder, stack, **more)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[ProxiedCluster]:
    with proxied(tmp_path_factory.mktemp("proxied")) as made:
        for topic in ("greetings", "held", "pulled"):
            made.admin.topics.create(topic, queues=2)
        make_places(made.admin)
        yield made


def received(client: RawGrpc, topic: str, broker: str, **more: Any) -> list[pb.Message]:
    queue = pb.MessageQueue(topic=resource(topic), id=-1, broker=pb.Broker(name=broker))
    return client.receive(topic, message_queue=queue, **more)[1]


def handles_of(messages: list[pb.Message]) -> list[str]:
    return [each.system_properties.receipt_handle for each in messages]


def forwarded(client: RawGrpc, topic: str, group: str, handle: str) -> pb.Status:
    """The answer to a call for a dead letter."""
    return client.call(
        pb.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(topic), group=resource(group), receipt_handle=handle, message_id="m"
        )
    ).status


def test_a_route_has_the_queues_of_all_brokers_under_the_address_of_the_proxy(cluster):
    with RawGrpc(cluster.address) as client:
        asked = pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="10.1.2.3", port=81)])
        for endpoints, wanted in ((asked, "10.1.2.3:81"), (None, cluster.address)):
            route = client.call(
                pb.QueryRouteRequest(topic=resource("greetings"), endpoints=endpoints)
            )
            found = [
                (each.broker.name, each.id, f"{place.host}:{place.port}")
                for each in route.message_queues
                for place in each.broker.endpoints.addresses
            ]
            assert found == [(name, number, wanted) for name in _BROKERS for number in (0, 1)]
        assignments = client.call(
            pb.QueryAssignmentRequest(topic=resource("greetings"), group=resource("readers"))
        ).assignments
        queues = [each.message_queue for each in assignments]
        assert [(each.broker.name, each.id) for each in queues] == [(b, -1) for b in _BROKERS]
        missing = client.call(pb.QueryRouteRequest(topic=resource("missing")))
        assert missing.status.code == pb.TOPIC_NOT_FOUND


@pytest.fixture(scope="module")
def reports(cluster) -> dict[str, Result]:
    """What the official client reports on its scenes."""
    return play(cluster.address, cluster.folder)


@pytest.mark.parametrize("scene", SCENES)
def test_the_official_client_works_through_proxies(reports, scene):
    result = reports.get(scene)
    assert result is not None, f"{scene} did not report"
    assert result.passed, result.detail


def test_queues_of_all_brokers_are_pulled_and_their_offsets_committed(cluster):
    group = resource("pullers")
    with RawGrpc(cluster.address) as client:
        sent = client.send(*(client.message("pulled", b"%d" % each) for each in range(8)))
        assert sent.status.code == pb.OK
        bodies = set()
        for name, number in product(_BROKERS, (0, 1)):
            broker = pb.Broker(name=name)
            queue = pb.MessageQueue(topic=resource("pulled"), id=number, broker=broker)
            asked = pb.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.END)
            end = client.call(asked).offset
            pull = pb.PullMessageRequest(group=group, message_queue=queue, batch_size=8)
            parts = list(client.stream(pull))
            bodies |= {each.message.body for each in parts if each.HasField("message")}
            assert parts[-1].next_offset == end
            get = pb.GetOffsetRequest(group=group, message_queue=queue)
            assert client.call(get).status.code == pb.OFFSET_NOT_FOUND
            commit = pb.UpdateOffsetRequest(group=group, message_queue=queue, offset=end)
            assert client.call(commit).status.code == pb.OK
            assert client.call(get).offset == end
        assert bodies == {b"%d" % each for each in range(8)}


def test_a_dead_letter_is_stored_and_acknowledged(cluster):
    with RawGrpc(cluster.address) as client:
        cluster.admin.topics.create("doomed", queues=1)
        assert (
            client.send(client.message("doomed"), client.message("doomed")).status.code == pb.OK
        )
        [dead] = received(client, "doomed", "broker-a")
        [handle] = handles_of([dead])
        for _ in range(2):  # A repeated call does nothing.
            assert forwarded(client, "doomed", "readers", handle).code == pb.OK
        # Nor can the message be hidden again.
        changed = client.change("doomed", "readers", handle, 20)
        assert changed.status.code == pb.INVALID_RECEIPT_HANDLE
        assert received(client, "doomed", "broker-a") == []
        letters = received(client, "%DLQ%readers", "broker-a", group="undertakers")
        assert [each.body for each in letters] == [dead.body]


def test_wrong_calls_are_refused_by_their_code(cluster):
    with RawGrpc(cluster.address) as client:
        good = "0 1 2 3 0 broker-a 0 0 0"
        # Official clients would repeat a call that is refused for ever.
        assert forwarded(client, "held", "readers", good).code == pb.OK
        elsewhere = good.replace("broker-a", "broker-z")
        answer = client.ack("held", "readers", good, elsewhere, "x")
        assert {each.status.code for each in answer.entries} == {pb.INVALID_RECEIPT_HANDLE}
        assert "cannot find broker broker-z" in answer.entries[1].status.message
        assert (
            client.change("held", "readers", good, 20).status.code == pb.INVALID_RECEIPT_HANDLE
        )
        queue = pb.MessageQueue(topic=resource("held"), broker=pb.Broker(name="broker-z"))
        status, _ = client.receive("held", message_queue=queue)
        assert status.code == pb.BAD_REQUEST
        ended = client.call(
            pb.EndTransactionRequest(
                topic=resource("py_transaction"), message_id="m", transaction_id="T.AAAA",
                resolution=pb.COMMIT,
            )
        )  # fmt: skip
        assert ended.status.code == pb.INVALID_TRANSACTION_ID
        wrong = client.send(client.message("py_fifo", b"x"))
        assert wrong.status.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        recalled = client.call(
            pb.RecallMessageRequest(topic=resource("py_recall"), recall_handle="nothing")
        )
        assert recalled.status.code == pb.BAD_REQUEST


def test_another_proxy_acknowledges_what_a_killed_one_has_renewed_and_ends_its_transactions(
    cluster,
):
    first, second = (cluster.proxy(name) for name in ("left", "right"))
    with first, second, RawGrpc(first.address) as one, RawGrpc(second.address) as other:
        sent = one.send(*(one.message("held", b"%d" % each) for each in range(4)))
        assert sent.status.code == pb.OK
        half = one.message("py_transaction", b"p", message_type=pb.TRANSACTION)
        [entry] = one.send(half).entries
        found = {name: received(one, "held", name, auto_renew=True) for name in _BROKERS}
        hidden = received(
            one, "held", "broker-a", group="others", invisible_duration=seconds(10)
        )
        first.kill()
        ended = other.call(
            pb.EndTransactionRequest(
                topic=resource("py_transaction"), message_id="m", resolution=pb.COMMIT,
                transaction_id=entry.transaction_id,
            )
        )  # fmt: skip
        assert ended.status.code == pb.OK
        handles = [each for name in _BROKERS for each in handles_of(found[name])]
        assert len(handles) == 4
        acked = other.ack("held", "readers", *handles)
        assert {each.status.code for each in acked.entries} == {pb.OK}
        [changed] = [other.change("held", "others", handles_of(hidden)[0], 15)]
        assert changed.status.code == pb.OK
        assert other.ack("held", "others", changed.receipt_handle).status.code == pb.OK
        for name in _BROKERS:
            assert received(other, "held", name) == []


def test_a_renewed_handle_is_good_after_its_time_at_any_proxy_and_void_when_its_client_is_gone(
    cluster, tmp_path
):
    """The proxies renew soon: what they hide for a minute at first is hidden for 12 s here."""
    script = (
        "import sys; from cometmq.proxy.services import receiving, renewals, clients; "
        "receiving.RENEWED_MS = 12_000; renewals.TIMES_SECONDS = (12,); clients.ALONE_SECONDS = 3.0; "
        "from cometmq.proxy.cluster.program import run_proxy; sys.exit(run_proxy(sys.argv[1]))"
    )
    first, second = (cluster.proxy(name) for name in ("early", "late"))
    first.command = [sys.executable, "-c", script, first.command[-1]]
    with first, second, RawGrpc(first.address) as one, RawGrpc(second.address) as other:
        cluster.admin.topics.create("renewed", queues=1)
        for _ in _BROKERS:
            assert one.send(one.message("renewed", b"x")).status.code == pb.OK
        [kept, *_] = received(one, "renewed", "broker-a", auto_renew=True)
        lost = received(one, "renewed", "broker-b", auto_renew=True)
        settings = pb.Settings(client_type=pb.PUSH_CONSUMER)
        settings.subscription.group.name = "readers"
        with one.settled(settings):  # Its client is alive.
            time.sleep(16)
            assert received(other, "renewed", "broker-a") == []
            [handle] = handles_of([kept])
            assert other.ack("renewed", "readers", handle).status.code == pb.OK
        again = wait_until(
            lambda: received(other, "renewed", "broker-b"), seconds=40, what="the lost message"
        )
        assert [each.body for each in again] == [each.body for each in lost]
        # Its time is over, and nobody has renewed it.
        status = other.ack("renewed", "readers", handle).entries[0].status
        assert status.code == pb.INVALID_RECEIPT_HANDLE


def test_a_topic_that_is_deleted_is_missing_soon(cluster):
    asked = pb.QueryRouteRequest(topic=resource("short"))
    cluster.admin.topics.create("short", queues=1)
    with RawGrpc(cluster.address) as client:
        assert client.call(asked).status.code == pb.OK
        cluster.admin.topics.delete("short")
        wait_until(
            lambda: client.call(asked).status.code == pb.TOPIC_NOT_FOUND,
            seconds=60, what="the end of the topic",
        )  # fmt: skip


def settings_of(group: str, topics: int, expression: str) -> pb.Settings:
    """The settings of a push consumer."""
    made = pb.Settings(client_type=pb.PUSH_CONSUMER)
    made.subscription.group.name = group
    for number in range(topics):
        entry = made.subscription.subscriptions.add(topic=resource(f"{group}-{number}"))
        entry.expression.CopyFrom(pb.FilterExpression(type=pb.TAG, expression=expression))
    return made


def is_at_both_brokers(cluster: ProxiedCluster, group: str) -> bool:
    return set(cluster.admin.groups.connections(group)) == set(_BROKERS)


def test_brokers_learn_of_a_group_beside_those_with_many_subscriptions(cluster):
    with ExitStack() as stack:
        proxy = stack.enter_context(cluster.proxy("crowded"))
        for group in ("many-1", "many-2"):
            client = stack.enter_context(RawGrpc(proxy.address, group))
            stack.enter_context(client.settled(settings_of(group, 1_000, "a || b")))
        modest = stack.enter_context(RawGrpc(proxy.address, "modest"))
        stack.enter_context(modest.settled(settings_of("modest", 1, "a")))
        for group in ("modest", "many-2"):
            look = partial(is_at_both_brokers, cluster, group)
            wait_until(look, seconds=20, what="the group at both brokers")


def test_expressions_above_64_kib_are_refused(cluster):
    with RawGrpc(cluster.address, "wordy") as client:
        with client.settled(settings_of("wordy", 2, "a" * 32_768)):
            pass
        larger = settings_of("wordy", 2, "a" * 32_769)
        refused = pytest.raises(grpc.RpcError, match="have 65538 bytes; at most 65536")
        with refused, client.settled(larger):
            pass


def test_a_transaction_whose_broker_cannot_be_looked_up_may_be_ended_again(cluster, tmp_path):
    with RawGrpc(cluster.address) as client:
        half = client.message("py_transaction", b"p", message_type=pb.TRANSACTION)
        [entry] = client.send(half).entries
    asked = pb.EndTransactionRequest(
        topic=resource("py_transaction"), message_id="m", resolution=pb.COMMIT,
        transaction_id=entry.transaction_id,
    )  # fmt: skip
    alone = processes.proxy(tmp_path, f"127.0.0.1:{free_port()}", port=free_port())
    with alone, RawGrpc(alone.address) as client:
        assert client.call(asked).status.code == pb.INTERNAL_SERVER_ERROR
    with RawGrpc(cluster.address) as client:
        assert client.call(asked).status.code == pb.OK


async def test_an_unknown_address_of_a_broker_is_a_refusal_of_the_call():
    instance = ClientInstance(f"127.0.0.1:{free_port()}")
    backend = ClusterBackend(instance, SendLimits(1, 1), Tasks("test"))
    end = EndTransaction("t", 0, 0, TRANSACTION_COMMIT, "m", "t")
    run = Machines(LoopWorld(), "test").run
    try:
        with pytest.raises(ProxyRefusal, match="broker 'broker-z'") as refused:
            await run(backend.end_transaction("broker-z", end, EVERYBODY))
        assert refused.value.code == pb.HA_NOT_AVAILABLE
    finally:
        await backend.close()
        await instance.close()


async def test_receives_that_a_broker_still_holds_are_limited_for_each_client():
    waits, held = Waits(), asyncio.Event()
    run = Machines(LoopWorld(), "test").run
    client, other = (GrpcClient(name, EVERYBODY, StreamCommands()) for name in ("one", "other"))
    running = [run(waits.steps(held.wait(), client)) for _ in range(WAITS_OF_CLIENT_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(ProxyRefusal, match="brokers hold 1000 receives") as refused:
        await run(waits.steps(held.wait(), client))
    assert refused.value.code == pb.TOO_MANY_REQUESTS
    running.append(run(waits.steps(held.wait(), other)))
    held.set()
    await asyncio.gather(*running)
    assert await run(waits.steps(held.wait(), client))


async def ended(tasks: Tasks) -> None:
    async with asyncio.timeout(30):
        while tasks:  # noqa: ASYNC110  They tell nobody.
            await asyncio.sleep(0.1)


async def test_a_proxy_tells_brokers_of_900_groups_of_each_kind_with_few_heartbeats():
    """The largest names and expressions that clients can send; the broker accepts the heartbeats."""
    long, wordy = "g" * 251, ":" * 60_000
    names = [f"{long}{number:04}" for number in range(1_000)]
    consumers = [
        ConsumerPart(name, (Subscription(name[128:], wordy, SQL92), Subscription("{[")))
        for name in names
    ]
    producers = [ProducerPart(name[128:]) for name in names]
    tasks = Tasks("test")
    async with AsyncEmbedded() as cluster, AsyncAdmin(cluster.nameserver) as admin:
        instance = ClientInstance(cluster.nameserver)
        await instance.start()
        members = ClusterMembers(instance, tasks)
        await members.start()
        clients = [GrpcClient(name, EVERYBODY, StreamCommands()) for name in names]
        try:
            for client, consumer, producer in zip(clients, consumers, producers, strict=True):
                members.add((consumer, producer), client)
            assert len(tasks) == 1
            await ended(tasks)
            assert await admin.groups.producer_connections(producers[899].group)
            assert set(await admin.groups.connections(names[0])) == {"broker-a"}
            assert not await admin.groups.producer_connections(producers[900].group)
            clients[0].close()
            await ended(tasks)
            assert not await admin.groups.producer_connections(producers[0].group)
        finally:
            await tasks.close()
            await instance.close()


def test_a_call_that_is_cancelled_takes_no_message_with_it(cluster):
    with RawGrpc(cluster.address) as client:
        cluster.admin.topics.create("cancelled", queues=1)
        for name in _BROKERS:
            queue = pb.MessageQueue(topic=resource("cancelled"), broker=pb.Broker(name=name))
            asked = client.receive_request("cancelled", message_queue=queue)
            call = client.stream(asked)
            time.sleep(1)
            call.cancel()
        answer = client.send(client.message("cancelled"), client.message("cancelled"))
        assert answer.status.code == pb.OK
        found = [each for name in _BROKERS for each in received(client, "cancelled", name)]
        assert len(found) == 2


@pytest.mark.parametrize("what", ["proxy", "broker"])
def test_clients_go_on_after_a_kill_and_lose_nothing(tmp_path, what):
    with proxied(tmp_path) as made:
        made.admin.topics.create("py_over_a_kill", queues=2)

        def kill() -> None:
            # The clients have connections to one of the proxies, and all come over to the other.
            for each in made.proxies if what == "proxy" else [made.brokers["broker-a"]]:
                each.kill()
                each.start()

        play_over_a_kill(made.address, made.folder, kill)


def test_a_broker_that_is_away_does_not_hold_up_the_other(tmp_path):
    with proxied(tmp_path) as made, RawGrpc(made.address) as client:
        made.admin.topics.create("orders", queues=1)
        assert client.send(client.message("orders", b"1")).status.code == pb.OK
        made.names.kill()  # Routes are known.
        made.brokers["broker-a"].kill()
        for number in range(6):
            assert client.send(client.message("orders", b"%d" % number)).status.code == pb.OK
        assert received(client, "orders", "broker-b")
        queue = pb.MessageQueue(topic=resource("orders"), broker=pb.Broker(name="broker-a"))
        status, _ = client.receive("orders", message_queue=queue)
        assert status.code in (pb.INTERNAL_SERVER_ERROR, pb.PROXY_TIMEOUT, pb.HA_NOT_AVAILABLE)


def test_settings_of_a_group_stay_while_the_broker_that_has_it_is_away(tmp_path):
    script = (
        "import sys; from cometmq.proxy.cluster import known_settings; known_settings.FRESH_SECONDS = 1.0; "
        "from cometmq.proxy.cluster.program import run_proxy; sys.exit(run_proxy(sys.argv[1]))"
    )
    with proxied(tmp_path, autoCreateSubscriptionGroup="false") as made:
        made.admin.groups.create(GroupConfig("walkers", orderly=True), broker="broker-a")
        proxy = made.proxy("forgetful")
        proxy.command = [sys.executable, "-c", script, proxy.command[-1]]
        settings = settings_of("walkers", 0, "")
        with proxy, RawGrpc(proxy.address) as client:
            for seconds_away in (0, 2, 2):
                time.sleep(seconds_away)
                with client.settled(settings) as answer:
                    assert answer.settings.subscription.fifo
                if not seconds_away:
                    made.brokers["broker-a"].kill()


def test_clients_need_the_rights_that_the_proxy_knows_and_brokers_see_its_own_account(tmp_path):
    seller = Credentials("the-seller", f"{CANARY}-seller")
    rights = account(
        seller, defaultTopicPerm="DENY", defaultGroupPerm="DENY",
        topicPerms=["orders=PUB", "mine=PUB|SUB"], groupPerms=["g=SUB"],
    )  # fmt: skip
    folder = tmp_path / "proxy"
    write_accounts(folder / "plain_acl.yml", rights)
    with guarded_cluster(tmp_path) as (names, _):
        with Admin(names.address, settings=ClientSettings(credentials=ADMIN)) as admin:
            for topic in ("orders", "secrets", "mine"):
                admin.topics.create(topic, queues=1)
        settings = {"aclEnable": "true", **inner_setting()}
        with processes.proxy(folder, names.address, port=free_port(), **settings) as proxy:
            signing = {"key": seller.access_key, "secret": seller.secret_key}
            with RawGrpc(proxy.address, "seller", **signing) as client:
                assert client.send(client.message("orders")).status.code == pb.OK
                refused = client.send(client.message("secrets")).status
                assert refused.code == pb.UNAUTHORIZED
                assert "no right Pub on Topic secrets" in refused.message
                assert client.receive("orders")[0].code == pb.UNAUTHORIZED
                assert client.send(client.message("mine")).status.code == pb.OK
                [handle] = handles_of(client.receive("mine", "g")[1])
                # The message of the other topic is the first one of the log.
                elsewhere = f"{handle.rsplit(' ', 1)[0]} 0"
                stolen = forwarded(client, "mine", "g", elsewhere)
                assert stolen.code == pb.INVALID_RECEIPT_HANDLE
                assert "names another place in the log" in stolen.message
                assert forwarded(client, "mine", "g", handle).code == pb.OK
            with RawGrpc(proxy.address, "stranger") as stranger:
                status = stranger.send(stranger.message("orders")).status
                assert status.code == pb.UNAUTHORIZED
        assert CANARY not in proxy.log.read_text()
