"""Records real frames between Java programs: the content of `tests/golden/frames`.

Usage: unshare --net --uts sh -c 'hostname localhost; ip link set lo up; python -m tools.record_frames FOLDER'

It starts a Java nameserver and broker 5.3.3 behind recording proxies, runs the official clients' scenarios
through them, once for each client and header coding, and keeps one or two frames of each shape: sender,
receiver, code, names of fields, kind of body. In a network of its own, with nothing but loopback, no frame
can hold an address of the machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.interop import clients, reference
from tests.support.frames import parts_of
from tests.support.processes import broker_port, free_port
from tests.support.recording_proxy import Frame, RecordingProxy

# What one broker address is to a client: the proxy listens there, the broker itself on 127.0.0.1.
PROXY_HOST = "127.0.0.2"
KEPT_OF_A_SHAPE = 2
FRAME_SIZE_MAX = 6_000
# These answers hold paths and settings of the machine: broker configuration, a consumer's running state.
PRIVATE_CODES = {26, 307}
SCENARIOS = [
    "admin_cluster_info",
    "autocreate_topic_send_consume",
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "tags_keys_props",
    "compressed_body",
    "push_concurrent_200",
    "tag_filter",
    "pull_consumer",
    "lite_pull_assign_seek",
    "offset_resume",
    "consume_from_timestamp",
    "rebalance_two_consumers",
    "topic_perm_read_only",
    "unknown_topic_and_group_codes",
    "unregister_on_shutdown",
    "admin_delete_topic",
    "admin_sub_group",
    "admin_kv_config",
    "heartbeat_second_round",
]


def shape(frame: Frame) -> tuple[object, ...]:
    """The traits that make two frames the same kind of frame."""
    kind, header, body = parts_of(frame.bytes)
    names = (
        tuple(sorted(json.loads(header).get("extFields") or {}))
        if kind == 0
        else len(header) // 64
    )
    return frame.sender, frame.receiver, kind, frame.code, frame.answers, names, bool(body)


def chosen(frames: Iterable[Frame]) -> list[Frame]:
    """The first frames of each shape that are small enough, in the order in which they passed."""
    seen: Counter[tuple[object, ...]] = Counter()
    kept = []
    for frame in frames:
        private = PRIVATE_CODES & {frame.code, frame.answers}
        if len(frame.bytes) > FRAME_SIZE_MAX or private:
            continue
        key = shape(frame)
        seen[key] += 1
        if seen[key] <= KEPT_OF_A_SHAPE:
            kept.append(frame)
    return kept


def write(path: Path, frames: Iterable[Frame]) -> None:
    """One JSON object a line; README.md of the folder explains the fields."""
    lines = [
        json.dumps(
            {
                "from": frame.sender,
                "to": frame.receiver,
                "header": ("JSON", "ROCKETMQ")[frame.kind],
                "code": frame.code,
                "answers": frame.answers,
                "oneway": frame.oneway,
                "frame": frame.bytes.hex(),
            }
        )
        for frame in chosen(frames)
    ]
    path.write_text("".join(line + "\n" for line in lines))
    print(f"{path.name}: {len(lines)} frames, {path.stat().st_size} bytes", flush=True)


async def record_clients(
    folder: Path, names: str, at_broker: str, client: str, header: str
) -> None:
    """The scenarios of one client with one header coding, through proxies of their own."""
    who = f"client {client}"
    to_names, to_broker = (
        RecordingProxy(who, "nameserver 5.3.3"),
        RecordingProxy(who, "broker 5.3.3"),
    )
    port = free_port()
    await to_names.start("127.0.0.1", port, target=names)
    host, broker_side = at_broker.rsplit(":", 1)
    await to_broker.start(PROXY_HOST, int(broker_side), target=f"{host}:{broker_side}")
    results = await asyncio.to_thread(
        clients.run_scenarios, f"127.0.0.1:{port}", SCENARIOS, client=client, header=header
    )
    print(client, header, Counter(result.passed for result in results.values()), flush=True)
    await to_broker.close()
    await to_names.close()
    name = f"client-{client}-{header.lower()}.jsonl"
    write(folder / name, [*to_names.frames, *to_broker.frames])


async def record_registration(
    work: Path, folder: Path, names: str, version: str, *, compressed: bool
) -> None:
    """A broker's life at its nameserver: register, data version, heartbeat, unregister.

    A 5.3.3 broker that shall compress cannot register with its own nameserver: it says
    `compressed=false` over a compressed body, and is answered with a NullPointerException. That is
    recorded too.
    """
    proxy = RecordingProxy(f"broker {version}", "nameserver 5.3.3")
    port = free_port()
    await proxy.start("127.0.0.1", port, target=names)
    settings = {
        "brokerName": "broker-b",
        "compressedRegister": str(compressed).lower(),
        "registerNameServerPeriod": 10_000,
    }
    started = reference.broker(work, f"127.0.0.1:{port}", version=version, settings=settings)
    with await asyncio.to_thread(started.start):
        await asyncio.sleep(
            35
        )  # two rounds, so that query-data-version and heartbeats are there
        await asyncio.to_thread(started.stop)
    await proxy.close()
    write(
        folder / f"registration-{version}{'-compressed' if compressed else ''}.jsonl",
        proxy.frames,
    )


async def record(folder: Path) -> None:
    """Record everything into `folder`."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        port = broker_port()
        settings = {
            **clients.BROKER_SETTINGS,
            "brokerIP1": PROXY_HOST,
            "bindAddress": "127.0.0.1",
        }
        names = reference.nameserver(work / "nameserver").start()
        served = reference.broker(work / "broker", names.address, port=port, settings=settings)
        with names, await asyncio.to_thread(served.start):
            await asyncio.to_thread(reference.wait_registered, names.address)
            for client in ("5.3.3", "4.9.7"):
                for header in ("JSON", "ROCKETMQ"):
                    await record_clients(folder, names.address, served.address, client, header)
            for version in ("5.3.3", "4.9.7"):
                for compressed in (False, True):
                    place_of_broker = work / f"{version}-{compressed}"
                    await record_registration(
                        place_of_broker, folder, names.address, version, compressed=compressed
                    )


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
