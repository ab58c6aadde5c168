"""The gRPC port of a broker that is a program of its own: from a broker.conf, with access control, and killed."""

import socket

import pytest

from cometmq import Admin, ClientSettings
from cometmq.model.credentials import Credentials
from cometmq.proxy.v2 import messaging_pb2 as pb
from tests.support import processes
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster
from tests.support.grpc_raw import RawGrpc, resource, seconds
from tests.support.processes import free_port
from tests.support.programs import small_cluster

_SELLER = Credentials("the-seller", f"{CANARY}-seller")


def test_calls_need_a_signature_and_the_rights_of_their_user(tmp_path):
    port = free_port()
    seller = account(_SELLER, defaultTopicPerm="DENY", defaultGroupPerm="DENY", topicPerms=["orders=PUB"], groupPerms=["readers=SUB"])  # fmt: skip
    with guarded_cluster(tmp_path, seller, grpcServerPort=port) as (names, broker):
        settings = ClientSettings(credentials=ADMIN)
        with Admin(names.address, settings=settings) as admin:
            for topic in ("orders", "secrets"):
                admin.topics.create(topic, queues=1)
        address = f"127.0.0.1:{port}"

        def send(topic, **signing):
            with RawGrpc(address, "seller", **signing) as client:
                return client.send(client.message(topic)).status

        mine = {"key": _SELLER.access_key, "secret": _SELLER.secret_key}
        assert send("orders", **mine).code == pb.OK
        refused = send("secrets", **mine)
        assert refused.code == pb.UNAUTHORIZED
        assert "no right Pub on Topic secrets" in refused.message
        assert send("orders").code == pb.UNAUTHORIZED
        assert send("orders", key=_SELLER.access_key, secret="wrong").code == pb.UNAUTHORIZED
        assert send("orders", key="stranger", secret="wrong").code == pb.UNAUTHORIZED
        with RawGrpc(address, "seller", **mine) as client:
            assert client.receive("orders", "readers")[0].code == pb.UNAUTHORIZED
            # Another user cannot use the id of a client that is there.
            with RawGrpc(
                address, "seller", key=ADMIN.access_key, secret=ADMIN.secret_key
            ) as other:
                status = other.call(pb.QueryRouteRequest(topic=resource("orders"))).status
            assert status.code == pb.FORBIDDEN
        log = broker.log.read_text()
        assert "refused SendMessage of user the-seller" in log
        assert CANARY not in log


def test_handles_and_transactions_of_before_a_kill_are_good_afterwards(tmp_path):
    port = free_port()
    with (
        small_cluster(tmp_path, grpcServerPort=port) as (names, broker),
        RawGrpc(f"127.0.0.1:{port}", "client") as client,
    ):
        with Admin(names.address) as admin:
            admin.topics.create("orders", queues=1)
            admin.topics.create("pays", queues=1, attributes={"message.type": "TRANSACTION"})
        client.send(client.message("orders", b"1"), client.message("orders", b"2"))
        _, found = client.receive("orders", invisible_duration=seconds(600))
        half = client.message("pays", b"p", message_type=pb.TRANSACTION)
        [entry] = client.send(half).entries
        broker.kill()
        broker.start()
        ended = client.call(
            pb.EndTransactionRequest(
                topic=resource("pays"), message_id="m", resolution=pb.COMMIT,
                transaction_id=entry.transaction_id,
            )
        )  # fmt: skip
        assert ended.status.code == pb.OK
        handles = [each.system_properties.receipt_handle for each in found]
        changed = client.change("orders", "readers", handles[0], 20)
        assert changed.status.code == pb.OK
        handles[0] = changed.receipt_handle
        assert client.ack("orders", "readers", *handles).status.code == pb.OK
        assert [each.body for each in client.receive("pays")[1]] == [b"p"]
        assert client.receive("orders")[1] == []


def test_a_port_that_is_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = processes.broker(
            tmp_path / "broker", "127.0.0.1:1", settings={"grpcServerPort": port}
        )
        with pytest.raises(Exception, match=f"cannot listen on 127.0.0.1:{port}"), broker:
            pass
