"""Makes `tests/golden/stores/kinds`: what a Java broker 5.3.3 writes for queues of every other kind.

By hand, once: `python -m tests.interop.make_kinds_store FOLDER`. FOLDER/store is then the store, and
FOLDER/expected.json what stands in it. Extended queues, light queues (LMQ) and batch queues are
off by default in a Java broker; the settings below turn them on and keep the files small.
"""

import json
import shutil
import signal
import socket
import sys
from pathlib import Path

from cometmq.codec.batch import BatchItem, encode_item
from tests.interop import reference
from tests.support.frames import connect, json_frame, parts_of, read_frame
from tests.support.load import send_frame
from tests.support.request_fields import send_fields

SEND_BATCH_MESSAGE = 320
SETTINGS = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 2_000,
    "enableConsumeQueueExt": "true",
    "mappedFileSizeConsumeQueueExt": 1_024,
    "enableMultiDispatch": "true",
    "enableLmq": "true",
    "mapperFileSizeBatchConsumeQueue": 460,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "timerWheelEnable": "false",
}
PLAIN, BATCHES = "Kinds", "KindsBatches"


def ask(peer: socket.socket, frame: bytes) -> dict[str, str]:
    """Send one request; the fields of its answer, which must be a good one."""
    peer.sendall(frame)
    header = json.loads(parts_of(read_frame(peer))[1])
    assert header["code"] == 0, header
    return header["extFields"]


def text_of(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def send_plain(peer: socket.socket, number: int) -> dict[str, object]:
    """A message with a tag; two of three go to light queues, too."""
    properties = {"TAGS": f"tag{number % 3}", "UNIQ_KEY": f"{number:032X}", "color": "red"}
    lights = [[], ["%LMQ%left"], ["%LMQ%left", "%LMQ%right"]][number % 3]
    if lights:
        properties["INNER_MULTI_DISPATCH"] = ",".join(lights)
    body = f"plain {number}"
    frame = send_frame(
        PLAIN,
        body.encode(),
        opaque=number,
        queue_id=number % 2,
        queues=2,
        properties=text_of(properties),
    )
    answer = ask(peer, frame)
    return {
        "body": body,
        "queue": number % 2,
        "offset": int(answer["queueOffset"]),
        "tag": properties["TAGS"],
        "lights": lights,
    }


def send_batch(peer: socket.socket, number: int) -> dict[str, object]:
    """A batch of up to five messages, which a batch topic stores as one record."""
    bodies = [f"batch {number} message {n}" for n in range(number % 5 + 1)]
    items = [
        BatchItem(0, body.encode(), text_of({"UNIQ_KEY": f"{number * 100 + n:032X}"}).encode())
        for n, body in enumerate(bodies)
    ]
    properties = {"UNIQ_KEY": f"{number * 100:032X}", "TAGS": "batched"}
    fields = send_fields(
        BATCHES,
        number % 2,
        text_of(properties),
        a="by_hand",
        d=2,
        m="true",
        n="broker-a",
        g=1_700_000_000_000,
    )
    frame = json_frame(
        SEND_BATCH_MESSAGE,
        fields,
        b"".join(encode_item(*item) for item in items),
        opaque=number,
    )
    answer = ask(peer, frame)
    return {"bodies": bodies, "queue": number % 2, "offset": int(answer["queueOffset"])}


def text_of_expected(expected: dict[str, list]) -> str:
    """As JSON, a line for each message or batch."""
    parts = [
        f' "{kind}": [\n  ' + ",\n  ".join(map(json.dumps, lines)) + "\n ]"
        for kind, lines in expected.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    """Start the Java programs, send, stop them, keep the store."""
    target = Path(sys.argv[1]).resolve()
    work = target / "work"
    names = reference.nameserver(work / "nameserver")
    broker = reference.broker(work / "broker", names.address, settings=SETTINGS)
    with reference.served(names, broker):
        said = reference.mqadmin(
            work / "admin", names.address, "updateTopic", "-c", "DefaultCluster", "-t", BATCHES,
            "-r", "2", "-w", "2", "-a", "+queue.type=BatchCQ",
        )  # fmt: skip
        print(said)
        with connect(broker.address) as peer:
            expected = {
                "plain": [send_plain(peer, number) for number in range(300)],
                "batches": [send_batch(peer, number) for number in range(40)],
            }
        broker.end(signal.SIGTERM)
    shutil.copytree(work / "broker" / "store", target / "store")
    shutil.rmtree(target / "store" / "compaction")
    (target / "expected.json").write_text(text_of_expected(expected))
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
