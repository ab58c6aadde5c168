"""Files of a broker are its user's alone: they hold bodies, keys, offsets and settings."""

from __future__ import annotations

import os

from cometmq.model.codes import RequestCode
from tests.support.request_fields import short_fields
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_sends import KEY


async def test_files_of_a_broker_could_be_read_by_each_local_user(tmp_path):
    before = os.umask(0)
    try:
        async with serve(tmp_path / "store") as served:
            for properties in (
                {"UNIQ_KEY": KEY, "KEYS": "k"},
                {"UNIQ_KEY": KEY, "TIMER_DELAY_MS": "600000"},
            ):
                fields = short_fields(properties=properties)
                await served.ask(RequestCode.SEND_MESSAGE_V2, fields, b"b")
    finally:
        os.umask(before)
    made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert len(made) > 15
    assert not [str(each) for each in made if each.stat().st_mode & 0o077]
