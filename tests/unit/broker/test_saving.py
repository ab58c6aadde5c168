"""A save that several wait for is nobody's to cancel."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.broker.tables.saving import Saver
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
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


async def test_a_save_of_a_groups_leader_ends_when_a_majority_has_the_change(tmp_path):
    path = tmp_path / "table.json"
    with ThreadPoolExecutor(1) as pool:
        saver = Saver(ConfigFile(str(path), RealDisk()), lambda: lambda: "1", pool)
        logging: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        saver.logged = lambda: logging
        saving = saver.save_soon()
        await asyncio.wait([saving], timeout=0.3)
        assert path.exists()
        assert not saving.done()
        assert saver.saving() is saving
        logging.set_exception(RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, "no majority"))
        with pytest.raises(RequestError, match="no majority"):
            await saving
        assert saver.is_dirty, "the next save waits for the log again"
        logging = asyncio.get_running_loop().create_future()
        logging.set_result(None)
        await saver.save_soon()
        assert saver.saving() is None
        await saver.close()
