"""Queries by key: how far the index is behind under load, and how long one takes among 20 million entries.

python -m bench.queries        the second alone, on a store that is made for it: half a minute
"""

import json
import random
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from cometmq.codec.index_file import ENTRIES_DEFAULT
from cometmq.codec.properties import encode_properties
from cometmq.kernel import java_hash_many
from cometmq.net.clock import SystemClock
from cometmq.store.appender import Put, encode_topic_block
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import IndexSettings, StoreSettings
from tests.support import processes
from tests.support.frames import json_frame, parts_of, read_frame

QUERY_MESSAGE = 12
LONG_MAX = (1 << 63) - 1
TOPIC = "Queried"
RECORDS = 100_000
ENTRIES = ENTRIES_DEFAULT - 2  # Not full: the slots are those of a file that grows.
QUERIES = 3_000
LOOK_SECONDS = 0.1


class KeyAsker:
    """Asks a broker for messages by key, over a connection of its own."""

    def __init__(self, port: int, topic: str) -> None:
        self._peer = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._topic = topic

    def ask(self, key: str) -> dict[str, Any]:
        """The header of the answer.

        Raises:
            OSError: the connection has ended.
        """
        fields = {
            "topic": self._topic,
            "key": key,
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": str(LONG_MAX),
        }
        self._peer.sendall(json_frame(QUERY_MESSAGE, fields))
        answer: dict[str, Any] = json.loads(parts_of(read_frame(self._peer))[1])
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()


class IndexLag:
    """While it is open it looks how old the newest message is that the index of a broker knows."""

    def __init__(self, port: int, topic: str, key: str) -> None:
        self._asker = KeyAsker(port, topic)
        self._key = key
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.lags_ms: list[int] = []

    def __enter__(self) -> "IndexLag":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._asker.close()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with suppress(OSError):
                answer = self._asker.ask(self._key)
                if answer["code"] == 0:
                    newest = int(answer["extFields"]["indexLastUpdateTimestamp"])
                    self.lags_ms.append(int(time.time() * 1000) - newest)


def make_store(folder: Path) -> None:
    """A store whose index has 20 million entries, of 100,000 messages."""
    settings = StoreSettings(
        commitlog_file_size=64 << 20, disk_reserve=0, index=IndexSettings(is_built=False)
    )
    store = MessageStore.open(folder, settings, clock=SystemClock())
    store.store_host = bytes(8)
    queue, topic = store.queue_for_append(TOPIC, 0), encode_topic_block(TOPIC)
    block = encode_properties({"UNIQ_KEY": "U", "WAIT": "true"})
    put: Put = (queue, topic, b"x" * 128, block, 0, 0, 0, 0, bytes(8), 0, 0, 0)
    offsets = [offset for _, offset, _ in store.put_many([put] * RECORDS)]
    store.dispatch_pending()
    stored_ms = SystemClock().now_ms()
    for start in range(0, ENTRIES, RECORDS):
        count = min(RECORDS, ENTRIES - start)
        texts = [b"%s#key-%d" % (TOPIC.encode(), start + number) for number in range(count)]
        store.index.enter(java_hash_many(texts), offsets[:count], [stored_ms] * count)
        store.index.write()
    store.close()


def measure_queries(folder: Path) -> dict[str, float]:
    """Ask a broker of ours on such a store for random keys, one after the other."""
    make_store(folder / "broker" / "store")
    settings = {"mappedFileSizeCommitLog": 64 << 20}
    with (
        processes.nameserver(folder / "nameserver") as names,
        processes.broker(folder / "broker", names.address, settings=settings) as broker,
    ):
        asker = KeyAsker(broker.port, TOPIC)
        chance = random.Random(1)
        keys = [f"key-{chance.randrange(ENTRIES)}" for _ in range(QUERIES)]
        for key in keys:
            assert asker.ask(key)["code"] == 0
        took = []
        for key in keys:
            began = time.perf_counter()
            asker.ask(key)
            took.append((time.perf_counter() - began) * 1e6)
        asker.close()
    took.sort()
    return {"p50_us": median(took), "p99_us": took[len(took) * 99 // 100], "entries": ENTRIES}


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        print(json.dumps(measure_queries(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
