"""gRPC clients: sends, one at a time and many, messages received and acknowledged, and clients that wait."""

from pathlib import Path
from typing import Any

from bench.awake import awake
from bench.load import grpcload, holding, run_grpcload
from bench.measure import anonymous_bytes
from bench.systems import FLOOR, running
from bench.work import WARM_SECONDS, Measured, Round, fill
from cometmq import Admin
from tests.support.processes import answers, free_port, wait_until

TOPICS = "Warm", "Sent", "WarmReceived", "Received", "Waited"
RECEIVED = 300_000
WAITING = 1_000


def do_grpc(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system, on a broker of its own with a gRPC port."""
    if name == FLOOR:
        return {}
    port = free_port()
    with running(name, folder, grpcServerPort=port) as system:
        wait_until(lambda: answers(port), seconds=60, what="the gRPC port")
        with Admin(system.nameserver) as admin:
            for topic in TOPICS:
                admin.topics.create(topic, queues=4)
        work, address = Round(system, seconds), f"127.0.0.1:{port}"
        run_grpcload("send", address, topic="Warm", secs=WARM_SECONDS[name])
        _row(work, "grpc send", address, "send", topic="Sent", secs=seconds)
        with awake():
            _row(work, "grpc alone", address, "send", topic="Sent", window=1, secs=seconds)
        fill(work, "WarmReceived", RECEIVED // 5)
        run_grpcload("receive", address, topic="WarmReceived", conns=4, secs=WARM_SECONDS[name])
        fill(work, "Received", RECEIVED)
        _row(work, "grpc receive", address, "receive", topic="Received", conns=4, secs=seconds)
        command = (grpcload(), "wait", address, f"-conns={WAITING}", "-topic=Waited")
        with holding(command):
            work.rows["grpc waiting"] = {"bytes": anonymous_bytes(system.group)}
        work.acknowledged["Sent"] = sum(
            work.rows[row]["messages"] for row in ("grpc send", "grpc alone")
        )
        work.read_back()
    return work.rows


def _row(work: Round, row: str, address: str, mode: str, **flags: Any) -> None:
    with work.measured(row) as measured:
        measured.update(run_grpcload(mode, address, **flags))
