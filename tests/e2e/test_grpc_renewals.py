"""Renewals: messages of a live client stay hidden under their first handle, also after a restart; those of a dead one come back."""

import time

import pytest

from cometmq import Admin
from cometmq.embedded import Embedded
from cometmq.model.group import GroupConfig
from cometmq.proxy.services import clients, receiving
from cometmq.proxy.v2 import messaging_pb2 as pb
from tests.support.grpc_raw import RawGrpc

_HIDDEN_MS = 3_000


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Messages are hidden for 3 s at first, and renewed after one: the first renewal hides them for a minute."""
    monkeypatch.setattr(receiving, "RENEWED_MS", _HIDDEN_MS)


def start(folder=None):
    return Embedded(folder, grpc_port=0)


def create(cluster, *topics, **attributes):
    with Admin(cluster.nameserver) as admin:
        for each in topics:
            admin.topics.create(each, queues=1, attributes=attributes)
        admin.groups.create(GroupConfig("ordered", orderly=True))


def received(cluster, topic, group, **more):
    """What another client receives within its shortest time."""
    with RawGrpc(cluster.grpc_address, "other") as other:
        return other.receive(topic, group, **more)[1]


@pytest.mark.parametrize("group", ["readers", "ordered"])
def test_a_message_stays_hidden_while_its_client_lives(group):
    with start() as cluster, RawGrpc(cluster.grpc_address, "holder") as holder:
        create(cluster, "jobs", **{"message.type": "MIXED"})
        holder.send(holder.message("jobs", message_group="g"))
        _, [found] = holder.receive("jobs", group, auto_renew=True)
        time.sleep(1.5)
        assert received(cluster, "jobs", group) == []
        answer = holder.ack("jobs", group, found.system_properties.receipt_handle)
        assert answer.status.code == pb.OK
        assert received(cluster, "jobs", group) == []


def test_a_renewed_message_keeps_its_handle_over_a_restart(tmp_path):
    with start(tmp_path) as cluster, RawGrpc(cluster.grpc_address, "holder") as holder:
        create(cluster, "jobs")
        holder.send(holder.message("jobs", b"1"), holder.message("jobs", b"2"))
        _, found = holder.receive("jobs", auto_renew=True)
        assert len(found) == 2
        time.sleep(2.5)
    handles = [each.system_properties.receipt_handle for each in found]
    with start(tmp_path) as cluster, RawGrpc(cluster.grpc_address, "holder") as holder:
        assert received(cluster, "jobs", "readers") == []
        assert holder.ack("jobs", "readers", handles[0]).status.code == pb.OK
        changed = holder.change("jobs", "readers", handles[1], 0)
        assert changed.status.code == pb.OK
        [again] = received(cluster, "jobs", "readers")
        assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize("group", ["readers", "ordered"])
def test_messages_of_a_client_that_is_gone_are_delivered_to_others(group, monkeypatch):
    monkeypatch.setattr(clients, "ALONE_SECONDS", 2.0)
    with start() as cluster:
        create(cluster, "jobs", **{"message.type": "MIXED"})
        with RawGrpc(cluster.grpc_address, "dead") as dead:
            dead.send(dead.message("jobs", message_group="g"))
            _, [first] = dead.receive("jobs", group, auto_renew=True)
            time.sleep(1.5)
        began = time.monotonic()
        [again] = received(cluster, "jobs", group)
        assert time.monotonic() - began < 5
        assert again.system_properties.delivery_attempt == 2
        assert again.system_properties.message_id == first.system_properties.message_id


def test_a_call_that_is_cancelled_takes_no_message_with_it():
    with start() as cluster, RawGrpc(cluster.grpc_address, "holder") as holder:
        create(cluster, "jobs")
        waiting = holder.stream(holder.receive_request("jobs"), timeout=30)
        time.sleep(0.5)
        waiting.cancel()
        time.sleep(0.2)
        holder.send(holder.message("jobs"))
        [found] = received(cluster, "jobs", "readers")
        assert found.system_properties.delivery_attempt == 1
