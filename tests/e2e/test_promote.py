"""`cometmq cluster promote` and `demote`: what they say first, what they do, and what they refuse."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cometmq.model.codes import ResponseCode
from cometmq.model.exit_status import ExitStatus
from tests.e2e.test_two_masters import copied, fill, master_in_routes
from tests.support import processes
from tests.support.command_line import run
from tests.support.members import send_to
from tests.support.processes import Program, wait_until
from tests.support.programs import halted, small_cluster

SECONDS_MAX = 60


@contextmanager
def pair(folder: Path) -> Iterator[tuple[str, Program, Program]]:
    """The nameserver's address, a master, and its slave that has everything."""
    copy = {"brokerRole": "SLAVE", "brokerId": 1}
    with (
        processes.nameserver(folder) as nameserver,
        processes.broker(folder / "master", nameserver.address) as master,
        processes.broker(folder / "slave", nameserver.address, settings=copy) as slave,
    ):
        names = nameserver.address
        fill(names)
        wait_until(lambda: copied(folder), seconds=30, what="the copy")
        yield names, master, slave


def promote(names: str, *more: str) -> tuple[int, str]:
    done = run("cluster", "promote", "broker-a", *more, nameserver=names)
    return done.returncode, done.stderr.decode()


def takes_messages(address: str) -> bool:
    return send_to(address)[0] == ResponseCode.SUCCESS


def copies(names: str, address: str) -> bool:
    done = run("cluster", "replicas", "--json", nameserver=names)
    return {each["address"]: each["state"] for each in json.loads(done.stdout)}.get(
        address
    ) == "copying"


def test_a_master_that_answers_hands_over_and_becomes_the_slave(tmp_path):
    with pair(tmp_path) as (names, master, slave):
        status, said = promote(names, "--dry-run")
        assert status == ExitStatus.WELL
        assert (
            f"{slave.address} (id 1) becomes the master of broker-a, with brokerRole=ASYNC_MASTER"
            in said
        )
        assert (
            f"{master.address} accepts no messages until it has handed over everything" in said
        )
        assert takes_messages(master.address)
        status, said = promote(names)
        assert status == ExitStatus.WELL, said
        assert f"{slave.address} is the master of broker-a now." in said
        assert master_in_routes(names) == slave.address
        assert takes_messages(slave.address)
        assert send_to(master.address)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
        wait_until(lambda: copies(names, master.address), seconds=SECONDS_MAX, what="a copy")


def test_a_dead_masters_slave_is_promoted_after_a_question(tmp_path):
    with pair(tmp_path) as (names, master, slave):
        master.kill()
        wait_until(
            lambda: master_in_routes(names) is None, seconds=SECONDS_MAX, what="it is gone"
        )
        status, said = promote(names)
        assert status != ExitStatus.WELL, "nobody answered the question"
        assert "The master does not answer: its log after physical offset" in said
        assert not takes_messages(slave.address)
        status, said = promote(names, "--yes", "--role", "ASYNC_MASTER")
        assert status == ExitStatus.WELL, said
        assert master_in_routes(names) == slave.address
        assert takes_messages(slave.address)


def test_a_master_that_hangs_is_passed_over_by_force_only_and_comes_back_as_a_slave(tmp_path):
    with pair(tmp_path) as (names, master, slave):
        with halted(master):
            status, said = promote(names, "--yes")
            assert status == ExitStatus.FOUND
            assert f"The master {master.address} is registered but does not answer" in said
            assert "Nothing was changed" in said
            status, said = promote(names, "--yes", "--force")
            assert status == ExitStatus.WELL, said
            wait_until(
                lambda: master_in_routes(names) == slave.address,
                seconds=SECONDS_MAX,
                what="the route",
            )
        wait_until(
            # Not by sends: one that it still takes would be its alone.
            lambda: "two masters of broker-a" in master.log.read_text(),
            seconds=SECONDS_MAX,
            what="the old one takes nothing",
        )
        done = run(
            "cluster", "demote", "broker-a", "--address", master.address, "--yes",
            nameserver=names,
        )  # fmt: skip
        assert done.returncode == ExitStatus.WELL, done.stderr.decode()
        assert b"It is a slave with brokerId=1 now" in done.stderr
        wait_until(lambda: copies(names, master.address), seconds=SECONDS_MAX, what="a copy")


def test_where_there_is_no_slave_nothing_is_promoted(tmp_path):
    with small_cluster(tmp_path) as (nameserver, master):
        status, said = promote(nameserver.address)
        assert status == ExitStatus.FAILED
        assert "broker-a: no slave answers" in said
        status, said = promote(nameserver.address, "--role", "SLAVE")
        assert status == ExitStatus.WRONG_USE
        done = run(
            "cluster", "demote", "broker-a", "--successor", "1", "--yes",
            nameserver=nameserver.address,
        )  # fmt: skip
        assert done.returncode == ExitStatus.FAILED
        assert (
            b"the slave with brokerId=1 cannot become the master now: it is not connected"
            in done.stderr
        )
        assert takes_messages(master.address)


def test_a_slave_that_was_promoted_is_a_master_after_a_restart(tmp_path):
    with pair(tmp_path) as (names, master, slave):
        assert promote(names)[0] == ExitStatus.WELL
        for program in (master, slave):
            os.kill(program.pid, signal.SIGKILL)
            program.kill()
        slave.start()
        master.start()
        assert master_in_routes(names) == slave.address
        assert takes_messages(slave.address)
        wait_until(lambda: copies(names, master.address), seconds=SECONDS_MAX, what="a copy")
