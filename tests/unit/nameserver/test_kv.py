"""Key-value configuration: what is answered is on the disk, in Java's form."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.model.errors import CodecError, RequestError
from cometmq.nameserver.kv import KvConfig
from cometmq.steps.on_loop import LoopWorld
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk
from tests.support.steps import run


def file_in(folder) -> ConfigFile:
    return ConfigFile(str(folder / "kvConfig.json"), RealDisk())


def kv_of(file: ConfigFile | None) -> KvConfig:
    return KvConfig(file, LoopWorld())


async def test_a_value_is_there_after_a_restart(tmp_path):
    await run(kv_of(file_in(tmp_path)).put("ORDER_TOPIC_CONFIG", "T", "broker-a:4"))
    text = (tmp_path / "kvConfig.json").read_text()
    assert text == '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}'
    again = kv_of(file_in(tmp_path))
    assert again.value("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    await run(again.delete("ORDER_TOPIC_CONFIG", "T"))
    last = kv_of(file_in(tmp_path))
    assert last.value("ORDER_TOPIC_CONFIG", "T") is None
    assert last.table("ORDER_TOPIC_CONFIG") == {}
    assert last.table("never") is None


async def test_to_delete_what_is_not_there_is_no_error(tmp_path):
    await run(kv_of(file_in(tmp_path)).delete("n", "k"))
    assert not (tmp_path / "kvConfig.json").exists()


async def test_without_a_file_values_last_as_long_as_the_process():
    kv = kv_of(None)
    await run(kv.put("n", "k", "v"))
    assert kv.value("n", "k") == "v"


async def test_a_value_that_cannot_be_written_does_not_hold(tmp_path):
    kv = kv_of(ConfigFile(str(tmp_path / "a-file" / "kvConfig.json"), RealDisk()))
    (tmp_path / "a-file").write_text("no folder")
    with pytest.raises(RequestError, match=r"kvConfig\.json could not be written"):
        await run(kv.put("n", "k", "v"))
    assert kv.value("n", "k") is None


async def test_changes_that_come_together_are_written_together_in_their_order(tmp_path):
    file = file_in(tmp_path)
    texts, save = [], file.save

    def keep(text: str) -> None:
        texts.append(text)
        save(text)

    file.save = keep  # type: ignore[method-assign]  # It writes all the same.
    kv = kv_of(file)
    puts = [run(kv.put("n", str(number % 10), str(number))) for number in range(200)]
    await asyncio.gather(*puts, run(kv.delete("n", "9")), run(kv.put("m", "k", "v")))
    assert len(texts) <= 2
    expected = {
        "n": {str(number % 10): str(number) for number in range(190, 199)},
        "m": {"k": "v"},
    }
    for each in (kv, kv_of(file_in(tmp_path))):
        assert {name: each.table(name) for name in expected} == expected


async def test_changes_that_cannot_be_written_are_all_refused(tmp_path):
    kv = kv_of(ConfigFile(str(tmp_path / "a-file" / "kvConfig.json"), RealDisk()))
    (tmp_path / "a-file").write_text("no folder")
    puts = [run(kv.put("n", str(number), "v")) for number in range(5)]
    said = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(each) for each in said] == [RequestError] * 5
    (tmp_path / "a-file").unlink()
    await run(kv.put("n", "5", "v"))
    assert kv.table("n") == {"5": "v"}


async def test_a_broken_file_is_named_and_not_overwritten(tmp_path):
    (tmp_path / "kvConfig.json").write_text('{"configTable":{"n":7}}')
    with pytest.raises(CodecError, match=r"kvConfig\.json.*must be an object, not 7"):
        kv_of(file_in(tmp_path))
