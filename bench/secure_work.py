"""What it costs to be closed to strangers: signed sends, TLS, an audit, very many users, and connections that only wait.

Both systems have users and policies of Auth 2.0, of the same user, and both take plain connections and TLS on one port with the same
certificate. A broker that asks for nothing stands beside each, and is loaded in turns with it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.guarded import ENTRIES, LOADER, guarded
from bench.load import holding, loadgen, run_loadgen
from bench.measure import anonymous_bytes
from bench.systems import COMETMQ, FLOOR, SETTINGS, Running, running
from bench.work import Measured, Round, warm_up
from cometmq.access.auth_users import AuthUser
from cometmq.access.policies import read_policies
from cometmq.model.rights import Access, Action, Resource, Right
from tests.support import processes
from tests.support.accounts import NO_SLAVES, write_accounts
from tests.support.frames import connect, json_frame, parts_of, read_frame
from tests.support.processes import Program, wait_until

BROKER_RUNTIME = 28
SIGNED: dict[str, Any] = {"user": LOADER.access_key, "secret": LOADER.secret_key}
# Made before the time begins: what is measured is what a broker does, not what signing costs the load.
LOAD: dict[str, Any] = {"conns": 4, "window": 256, "size": 128, "ready": 4_096}
TURNS = 3  # With and without, in turns: one window differs from the next by some per cent.
AUDIT_TURNS = 5
IDLE, IDLE_TLS = 5_000, 1_000
REFUSED_SECONDS = 0.05  # between requests of somebody who is refused
USERS = 1_000
FILES_TAKEN = 5


def do_secure(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system."""
    if name == FLOOR:
        return {}
    secs = max(2, seconds // 2)
    with (
        running(name, folder / "open") as bare,
        guarded(name, folder / "guarded") as system,
    ):
        bare_work, work = Round(bare, secs), Round(system, secs)
        work.rows["idle"] = idle(bare, IDLE)
        work.rows["idle tls"] = idle(system, IDLE_TLS, **SIGNED, tls=True)
        sends_in_turns(work, bare_work)
        one_alone(work)
        if name == COMETMQ:
            work.rows["audit"] = sends_while_refusing(work)
        work.read_back(**SIGNED)
        bare_work.read_back()
    if name == COMETMQ:
        work.rows["decisions"] = decisions()
        work.rows["taken"] = taken_files(folder / "accounts", secs)
    return work.rows


# --- sends


def sends_in_turns(work: Round, bare: Round) -> None:
    """The same load without anything, signed, and signed over TLS, in turns."""
    secs = work.seconds
    ways: dict[str, tuple[Round, dict[str, Any]]] = {
        "bare": (bare, {}), "signed": (work, SIGNED), "tls": (work, {**SIGNED, "tls": True}),
    }  # fmt: skip
    warm_up(bare.system)
    for _, flags in (ways["signed"], ways["tls"]):
        warm_up(work.system, **flags)
    seen: dict[str, list[Measured]] = {way: [] for way in ways}
    for _ in range(TURNS):
        for way, (of, flags) in ways.items():
            seen[way].append(of.send(way, topic="Many", secs=secs, **LOAD, **flags))
    for way, all_of_it in seen.items():
        kept = [
            each["per_second"] / base["per_second"]
            for each, base in zip(all_of_it, seen["bare"], strict=True)
        ]
        spent = median(each["processor_us"] for each in all_of_it)
        work.rows[way] = {
            "per_second": median(each["per_second"] for each in all_of_it),
            "processor_us": spent,
            "kept": median(kept),
        }


def one_alone(work: Round) -> None:
    """One who sends one message at a time, signed and over TLS."""
    address = work.system.broker.address
    flags: dict[str, Any] = {"topic": "Alone", "size": 128, **SIGNED, "tls": True}
    run_loadgen("lone", address, secs=2, **flags)
    with work.measured("tls alone") as measured:
        measured.update(run_loadgen("lone", address, secs=work.seconds, **flags))


def sends_while_refusing(work: Round) -> Measured:
    """Signed sends beside somebody who is refused twenty times a second, each with its line, and without him."""
    ratios, costs = [], []
    for _ in range(AUDIT_TURNS):
        alone = work.send(
            "unaudited", topic="Many", secs=max(2, work.seconds // 2), **LOAD, **SIGNED
        )
        with refused(work.system.broker.address):
            beside = work.send(
                "audited", topic="Many", secs=max(2, work.seconds // 2), **LOAD, **SIGNED
            )
        ratios.append(beside["per_second"] / alone["per_second"])
        costs.append(alone["processor_us"] / beside["processor_us"])
    return {"kept": median(ratios), "kept_by_processor": median(costs)}


@contextmanager
def refused(address: str) -> Iterator[None]:
    """Somebody who asks and is refused, again and again, in a thread of this process."""
    is_over = threading.Event()

    def run() -> None:
        with connect(address, seconds=60) as peer:
            while not is_over.wait(REFUSED_SECONDS):
                peer.sendall(json_frame(BROKER_RUNTIME))
                assert b'"code":0' not in parts_of(read_frame(peer))[1]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# --- connections, users, files


def idle(system: Running, count: int, **flags: Any) -> Measured:
    """Anonymous memory with so many connections that have asked one thing and now wait, and what they added."""
    before = anonymous_bytes(system.group)
    options = [f"-{name}={value}" for name, value in flags.items()]
    command = (loadgen(), "idle", system.broker.address, f"-conns={count}", "-topic=FirstSend")
    with holding((*command, *options)):
        held = anonymous_bytes(system.group)
    print(f"  {system.name:8} {count} idle, {(held - before) / 1e6:.0f} MB more", flush=True)
    return {"bytes": held, "growth_bytes": held - before}


def decisions() -> Measured:
    """What it takes to decide about one thing, at first and again, among 1,000 users with 20 entries each."""
    users = [many_entries(number) for number in range(USERS)]
    wanted = frozenset({Action.PUB})
    asked = [
        Access(Resource.TOPIC, f"orders-{number % ENTRIES}-x", wanted)
        for number in range(USERS)
    ]
    first: list[int] = []
    again: list[int] = []
    for took in (first, again):
        for user, access in zip(users, asked, strict=True):
            began = time.perf_counter_ns()
            assert user.may(access, Right.WRITER, "10.1.2.3")
            took.append(time.perf_counter_ns() - began)
    return {"first_us": median(first) / 1_000, "again_us": median(again) / 1_000}


def many_entries(number: int) -> AuthUser:
    """A user who may send to what begins with one of many names, from some networks."""
    entries = [
        {
            "resource": f"Topic:orders-{entry}-*", "actions": ["Pub", "Sub"],
            "sourceIps": ["10.0.0.0/8"], "decision": "Allow",
        }
        for entry in range(ENTRIES)
    ]  # fmt: skip
    policies = read_policies([{"policyType": "Custom", "entries": entries}])
    return AuthUser(name=f"user-{number}", secret=b"secret", policies=policies)


def taken_files(folder: Path, secs: int) -> Measured:
    """The longest wait of one who sends while a file of 1,000 accounts is taken, and where none is."""
    write_many(folder / "broker" / "plain_acl.yml", 0)
    names = processes.nameserver(folder / "nameserver")
    settings = {**SETTINGS, "aclEnable": "true", "aclFolder": folder / "broker", **NO_SLAVES}
    broker = processes.broker(folder / "broker", names.address, settings=settings)
    (folder / "broker" / "broker.conf").chmod(0o600)
    broker.is_ready, broker.own_group = broker.has_booted, True
    waits, bare_waits = [], []
    with names, broker:
        lone: dict[str, Any] = {"topic": "Alone", "size": 128, "secs": max(3, secs), **SIGNED}
        run_loadgen("lone", broker.address, **lone)
        for number in range(1, FILES_TAKEN + 1):
            bare_waits.append(run_loadgen("lone", broker.address, **lone)["max_us"])
            change = threading.Timer(
                0.5, write_many, (folder / "broker" / "plain_acl.yml", number)
            )
            before = taken_times(broker)
            change.start()
            waits.append(run_loadgen("lone", broker.address, **lone)["max_us"])
            is_taken = partial(has_taken, broker, before)
            wait_until(is_taken, seconds=30, what="the new accounts")
    return {"ms": median(waits) / 1_000, "bare_ms": median(bare_waits) / 1_000}


def taken_times(broker: Program) -> int:
    """How often a broker has said that it took other accounts."""
    return broker.log.read_text().count("Accounts are reloaded")


def has_taken(broker: Program, before: int) -> bool:
    """Whether it has said so again."""
    return taken_times(broker) > before


def write_many(path: Path, version: int) -> None:
    """A file of 1,000 accounts with 20 permissions each, and the load's."""
    permissions = [f"orders-{number}=PUB" for number in range(ENTRIES - 1)]
    accounts = [
        {
            "accessKey": f"user-{number:06}", "secretKey": f"secret-{version}-{number}",
            "topicPerms": [*permissions], "defaultGroupPerm": "SUB",
        }
        for number in range(USERS - 1)
    ]  # fmt: skip
    own = {
        "accessKey": LOADER.access_key, "secretKey": LOADER.secret_key, "defaultTopicPerm": "PUB|SUB",
    }  # fmt: skip
    write_accounts(path, own, *accounts)
