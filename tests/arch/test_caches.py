"""Every cache is bounded in bytes: caches are found by how they are made, and fed with what a peer could send."""

import ast
import json
import sys

import pytest

from tests.arch.sources import modules
from tests.support.all_caches import TEXT_LENGTH
from tests.support.programs import run_program

HELPER = "model/bounded_cache.py"
KEPT_MAX = 64 << 20  # Bytes of all caches that count their bytes.
# Caches that are made by hand, as they forget by their number of entries, and what bounds an entry's bytes.
BY_HAND = {
    "access/gate.py:_signers": "names of users, 128 characters, and an address",
    "access/gate.py:topics": "NAME_BYTES_MAX",
    "access/login_failures.py": "an address, and a hash of 8 bytes",
    "broker/tables/deleted_topics.py:_topics": "names of topics that were there",
    "broker/members/guards.py:_logged": "a group of a known member, 255 characters",
    "broker/pop/assignment.py:_routes": "topics that the nameserver knows",
    "broker/replication/group/log_bytes.py:_asked": "an offset",
    "broker/replication/master_port.py:_errors": "addresses",
    "broker/transactions/table.py:_ended": "a key and a group of 255 characters, and a topic",
    "client/producer/transactions.py:_known": "our own transactions, by message ids that we made",
    "dashboard/login_attempts.py:_failed": "an address and a name of a form's line, 1,000 characters",
    "dashboard/sessions.py:_by_hash": "a hash",
    "dashboard/sessions.py:_sent": "a form's token of a session that has signed in",
    "model/message.py:_legal": "legal topics, RETRY_TOPIC_LENGTH_MAX",
    "nameserver/handlers/registration.py:_by_broker": "_KNOWN_BYTES_MAX, by topic_size",
    "nameserver/rivals.py:_claims": "names of NAMES_SIZE_MAX characters together",
    "proxy/cluster/known_settings.py:_known": "a name of 255 characters, and settings that a broker has accepted",
    "store/queue_files.py:_open": "paths of the store",
    "store/read_side.py:known": "a queue of the store and an offset",
    "store/queue_files.py:kept": "parts of files of the store",
}


@pytest.fixture(scope="module")
def fed():
    """All caches of functions and all `BoundedCache`s of a process that imported the whole package."""
    program = [sys.executable, "-m", "tests.support.all_caches"]
    done = run_program(*program, seconds=240)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_function_kept_results_for_texts_of_any_length(fed):
    assert len(fed["functions"]) > 10
    for each in fed["functions"]:
        sized = [kind for kind in each["kinds"] if kind not in ("int", "bool", "type")]
        assert each["is_bounded"] or not sized, f"{each['name']}: make it with keep_short"
        assert each["grew"] == 0, f"{each['name']} kept a text of {TEXT_LENGTH} characters"


def test_all_caches_of_bytes_together_are_small(fed):
    assert fed["bytes"]
    assert sum(fed["bytes"]) <= KEPT_MAX


def _evicting(tree: ast.Module):
    """The attributes of which a module drops the first entry, or all, once there are too many."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and "next(iter(" in ast.unparse(target):
                    yield ast.unparse(target.value).split(".")[-1]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "popitem" and node.keywords:
                yield ast.unparse(node.func.value).split(".")[-1]
        elif isinstance(node, ast.If) and "len(" in ast.unparse(node.test):
            for each in node.body:
                text = ast.unparse(each)
                if text.endswith(".clear()"):
                    yield text.removesuffix(".clear()").split(".")[-1]


def test_a_cache_made_by_hand_says_what_bounds_its_bytes():
    """Otherwise use `BoundedCache` or `keep_short`."""
    found = set()
    for module in modules():
        if module.name == HELPER or module.name.startswith(("spark/", "cli/")):
            continue
        found |= {f"{module.name}:{attribute}" for attribute in _evicting(module.tree)}
    unknown = [
        each for each in found if each not in BY_HAND and each.partition(":")[0] not in BY_HAND
    ]
    assert not unknown, (
        f"use BoundedCache or keep_short, or say in BY_HAND what bounds an entry: {unknown}"
    )
