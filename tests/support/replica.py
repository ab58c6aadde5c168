"""A store that copies a master's log, on the running loop: what a slave is without its handlers."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cometmq.broker.loop.flusher import Flusher
from cometmq.broker.replication.copier import LogCopier
from cometmq.broker.tables.replication_state import MasterState
from cometmq.net.loop import loop_clock, run
from cometmq.replication.terms import LinkTerms
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.forks import Copy, begin


class Replica:
    """One of them; `await start()`, and `await close()`.

    Attributes:
        store: its store, open from `start` to `close`.
    """

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        *,
        broker_id: int = 1,
        own_ip: str | None = None,
        terms: LinkTerms | None = None,
    ) -> None:
        self._path = path
        self._settings = settings
        self._broker_id = broker_id
        self._own_ip = own_ip
        self._terms = terms or LinkTerms()

    async def start(self, master: str) -> "Replica":
        """Copy from the master whose HA port is at `master`."""
        clock = loop_clock()
        self.store = MessageStore.open(self._path, self._settings, clock=clock)
        self._flusher = Flusher(self.store, clock)
        self._flusher.start()
        self._pool = ThreadPoolExecutor(1)
        self.copier = LogCopier(
            self.store,
            broker_id=self._broker_id,
            own_ip=self._own_ip,
            terms=self._terms,
            clock=clock,
            pool=self._pool,
            on_written=self._flusher.written,
        )
        self.copier.serve()
        self.copier.master_told(master)
        return self

    async def close(self) -> None:
        await self.copier.close()
        await self._flusher.close()
        self.store.close()
        self._pool.shutdown()

    @property
    def master(self) -> MasterState:
        state = self.copier.state().master
        assert state is not None
        return state

    async def reaches(self, end: int, *, seconds: float = 30) -> None:
        """Wait until its log goes as far, and is visible."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.store.dispatched_offset < end:
            assert asyncio.get_running_loop().time() < deadline, self.master
            await asyncio.sleep(0.01)

    def log(self, start: int = 0) -> bytes:
        """All bytes of its log from an offset on."""
        return log_of(self.store, start)


def log_of(store: MessageStore, start: int = 0) -> bytes:
    """All bytes of a log from an offset on."""
    found = b""
    start = max(start, store.min_offset)
    while (piece := store.read_log(start + len(found), 1 << 20)) is not None:
        found += bytes(piece)
    return found


def append_all(store: MessageStore, offset: int, content: bytes) -> int:
    """Append the bytes of a log, file by file; gives the offset up to which they were taken."""
    taken, end = -1, offset
    while taken != end:
        taken, end = end, store.append_raw(end, content[end - offset :])
    return end


@contextmanager
def copying(
    folder: Path, master: str, *, file_size: int = 64 << 20
) -> "Iterator[subprocess.Popen[bytes] | Copy]":
    """A process that does nothing but copy into `folder`/store, from the HA port at `master`; killed in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.support.replica",
        str(folder / "store"),
        master,
        str(file_size),
    ]
    with (folder / "slave.log").open("ab") as log:
        process = begin(command, stdout=log.fileno(), stderr=log.fileno(), env=dict(os.environ))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def copy_for_ever(path: str, master: str, file_size: int) -> None:
    """Copy until the process is killed, with files as tests of whole brokers have them."""
    await Replica(Path(path), StoreSettings(commitlog_file_size=file_size)).start(master)
    await asyncio.Event().wait()


def main() -> None:
    """Copy what the arguments say."""
    logging.basicConfig(level=logging.INFO)
    run(copy_for_ever(sys.argv[1], sys.argv[2], int(sys.argv[3])))


if __name__ == "__main__":
    main()
