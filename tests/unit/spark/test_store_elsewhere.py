"""Views of a store whose log is not in its directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.spark.store.partitions import plan
from cometmq.spark.store.schema import VIEWS
from cometmq.spark.store.settings import StoreReadSettings
from tests.support.store_puts import SMALL, open_store, put, run_jobs


@pytest.mark.parametrize("with_batches", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_planned_with_the_log_elsewhere(tmp_path: Path, view, with_batches):
    log, root = tmp_path / "log", tmp_path / "store"
    store = open_store(root, replace(SMALL, commitlog_paths=(str(log),)))
    put(store, b"one", b"two")
    run_jobs(store)
    store.close()
    if with_batches:
        queue = root / "batchconsumequeue" / "batched" / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").write_bytes(bytes(46))
    given = {"path": str(root), "commitLogPath": str(log), "view": view}
    parts = plan(StoreReadSettings.parse(given, is_stream=False))
    assert len(parts) == (0 if view == "index" else 1)
