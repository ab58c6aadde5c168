"""A save that several wait for is nobody's to cancel."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.broker.tables.saving import Saver
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk

pytestmark = pytest.mark.threads


async def test_who_goes_away_takes_the_save_from_nobody(tmp_path):
    may_go_on = threading.Event()

    def snapshot():
        return lambda: "1" if may_go_on.wait(30) else "0"

    async def wait(saving: asyncio.Future[None]) -> str:
        await saving
        return "saved"

    with ThreadPoolExecutor(1) as pool:
        saver = Saver(ConfigFile(str(tmp_path / "table.json"), RealDisk()), snapshot, pool)
        saving, next_one = saver.save_soon(), saver.save_soon()
        tasks = [
            asyncio.create_task(wait(each)) for each in (saving, saving, next_one, next_one)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        assert [await tasks[1], await tasks[3]] == ["saved", "saved"]
        for left in (tasks[0], tasks[2]):
            with pytest.raises(asyncio.CancelledError):
                await left
        await saver.close()
    assert (tmp_path / "table.json").read_text() == "1"
