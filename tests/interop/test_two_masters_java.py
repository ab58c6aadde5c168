"""Two masters of one name at a Java nameserver: the promoted one has the higher epoch, and the old one takes nothing."""

import pytest

from cometmq.model.codes import ResponseCode
from tests.e2e.test_two_masters import (
    SECONDS_MAX,
    copied,
    fill,
    master_in_routes,
    promoted,
    settings_of,
)
from tests.interop import reference
from tests.support import processes
from tests.support.members import send_to
from tests.support.processes import wait_until
from tests.support.programs import halted, until_killed

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_a_java_nameserver_keeps_the_promoted_master_and_the_old_one_takes_nothing(tmp_path):
    with until_killed(reference.nameserver(tmp_path / "names")) as names:
        slave = processes.broker(
            tmp_path / "slave", names.address, settings=settings_of("SLAVE")
        )
        with processes.broker(tmp_path / "master", names.address) as old, slave:
            fill(names.address)
            wait_until(lambda: copied(tmp_path), seconds=30, what="the copy")
            with halted(old):
                slave.stop()
                new = promoted(tmp_path, names.address, slave).start()
            with new:
                wait_until(
                    lambda: send_to(old.address)[0] == ResponseCode.SERVICE_NOT_AVAILABLE,
                    seconds=SECONDS_MAX,
                    what="the refusal of the old master",
                )
                assert master_in_routes(names.address) == new.address
                assert "two masters of broker-a" in old.log.read_text()
                assert send_to(new.address)[0] == 0
