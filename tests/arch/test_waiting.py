"""Broker and nameserver wait in one way: a request or a job is a generator of steps, and no task is made for it."""

import ast

from tests.arch.sources import modules

ROOTS = ("broker/", "nameserver/")
# What starts and ends with the program.
LIFE = {"start", "follow", "close"}
# The role of a broker, programs, pages over HTTP, and what holds a connection of its own to another server.
COROUTINES = {
    "broker/__main__.py": {"_serve", "_start_proxy"},
    "broker/role.py": {
        "begin", "announce", "leave", "_close_registration", "end", "_adapt_tables", "_start", "_settle",
        "hand_over", "_wait_for_copy", "check_promotable", "stop_copying", "_until",
    },
    "broker/role_change.py": {
        "_tell_change", "_changed", "_demote", "_promote", "_replace", "_go_back", "_become", "_keep",
    },
    "broker/elected_role.py": {
        "begin", "leave", "end", "_adapt_tables", "_adapt", "_lead", "_follow", "_follow_leader", "_leave", "_become",
    },
    "broker/server.py": {"_open", "_end_role"},
    "broker/metrics/requests.py": {"_alive", "_ready", "_metrics"},
    "broker/pop/feature.py": {"_flushed"},
    "broker/registration/nameserver_calls.py": {"call"},
    "broker/registration/open_nameservers.py": {"warn_of_open_nameservers"},
    "broker/registration/requests.py": {"call", "_ask", "_wait_lost"},
    "broker/replication/allowed_addresses.py": {
        "admits", "look", "_look", "ask", "find", "plain_ips_of",
    },
    "broker/replication/copier.py": {"_run", "_copy", "_connect"},
    "broker/replication/group/elected_group.py": {"shut", "find"},
    "broker/replication/group/peer_link.py": {"_run", "_connect", "_serve"},
    "broker/replication/master_port.py": {"_look_at_log"},
    "nameserver/presence.py": {"_answers"},
    "nameserver/program.py": {"_serve"},
    "nameserver/server.py": {"_alive", "_metrics", "_ready", "_scan", "_serve_pages", "_sweep"},
}  # fmt: skip
MAKE_TASKS = {"create_task", "ensure_future", "spawn", "to_thread", "TaskGroup"}
# Where every request goes through.
OF_REQUESTS = ("net/dispatcher.py", "net/peer.py", "net/turn.py", "net/requests.py")


TREES = {module.name: module.tree for module in modules()}
OF_SERVERS = {name: tree for name, tree in TREES.items() if name.startswith(ROOTS)}


def test_only_programs_and_connections_have_coroutines():
    found: dict[str, set[str]] = {}
    for name, tree in OF_SERVERS.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef) and node.name not in LIFE:
                found.setdefault(name, set()).add(node.name)
    assert found == COROUTINES


def made_tasks(tree: ast.Module) -> set[str]:
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {
        each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
        for each in called
    } & MAKE_TASKS


def test_no_task_is_made_for_a_request():
    makers = {name for name, tree in OF_SERVERS.items() if made_tasks(tree)}
    assert makers <= COROUTINES.keys() | {"broker/metrics/exporting.py"}
    for name in OF_REQUESTS:
        assert not made_tasks(TREES[name]), name
