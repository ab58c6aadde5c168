"""The table of commands and the modules that define them, each imported on first use; `--help` lists them from here."""

from collections.abc import Callable
from typing import NamedTuple

import typer

PROGRAMS = "Programs"
MESSAGES = "Messages"
FILES = "Files"


class Entry(NamedTuple):
    """A command, or a group of commands, of `cometmq`.

    Attributes:
        add: imports its module and adds it to an app, maybe with others.
        panel: the panel of `--help` that lists it.
        help: the first paragraph of its own help, which `--help` shows.
    """

    add: Callable[[typer.Typer], None]
    panel: str
    help: str


def _programs(app: typer.Typer) -> None:
    from cometmq.cli.programs import SETTINGS_AS_FLAGS, broker, nameserver
    from cometmq.cli.up import up

    app.command()(up)
    app.command(context_settings=SETTINGS_AS_FLAGS)(nameserver)
    app.command(context_settings=SETTINGS_AS_FLAGS)(broker)


def _dashboard(app: typer.Typer) -> None:
    from cometmq.cli.dashboard import dashboard

    app.add_typer(dashboard, name="dashboard")


def _cluster(app: typer.Typer) -> None:
    from cometmq.cli.brokers import config, drain, list_brokers, show_broker, undrain
    from cometmq.cli.cluster import cluster
    from cometmq.cli.roles import demote, promote

    cluster.command("list")(list_brokers)
    cluster.command("show")(show_broker)
    cluster.command("config")(config)
    cluster.command("drain")(drain)
    cluster.command("undrain")(undrain)
    cluster.command("promote")(promote)
    cluster.command("demote")(demote)
    app.add_typer(cluster, name="cluster")


def _config(app: typer.Typer) -> None:
    from cometmq.cli.config import config

    app.add_typer(config, name="config")


def _doctor(app: typer.Typer) -> None:
    from cometmq.cli.doctor import doctor

    app.command()(doctor)


def _kv(app: typer.Typer) -> None:
    from cometmq.cli.kv import kv

    app.add_typer(kv, name="kv")


def _acl(app: typer.Typer) -> None:
    from cometmq.cli.accounts import acl
    from cometmq.cli.user_copies import copy_users

    acl.command("copy")(copy_users)
    app.add_typer(acl, name="acl")


def _topic(app: typer.Typer) -> None:
    from cometmq.cli.topic_stats import perm, queues, stats
    from cometmq.cli.topics import topics

    topics.command("queues")(queues)
    topics.command("stats")(stats)
    topics.command("perm")(perm)
    app.add_typer(topics, name="topic")


def _group(app: typer.Typer) -> None:
    from cometmq.cli.groups import groups

    app.add_typer(groups, name="group")


def _offset(app: typer.Typer) -> None:
    from cometmq.cli.offsets import offsets

    app.add_typer(offsets, name="offset")


def _message(app: typer.Typer) -> None:
    from cometmq.cli.delayed import delayed, recall
    from cometmq.cli.message_trace import resend, trace
    from cometmq.cli.messages import messages

    messages.command("delayed")(delayed)
    messages.command("recall")(recall)
    messages.command("trace")(trace)
    messages.command("resend")(resend)
    app.add_typer(messages, name="message")


def _dlq(app: typer.Typer) -> None:
    from cometmq.cli.dead_letters import letters

    app.add_typer(letters, name="dlq")


def _send(app: typer.Typer) -> None:
    from cometmq.cli.send import send

    app.command()(send)


def _tail(app: typer.Typer) -> None:
    from cometmq.cli.tail import tail

    app.command()(tail)


def _consume(app: typer.Typer) -> None:
    from cometmq.cli.consume import consume

    app.command()(consume)


def _explain(app: typer.Typer) -> None:
    from cometmq.cli.explain import conflicts, explain, transactions

    app.command()(explain)
    app.command()(conflicts)
    app.add_typer(transactions, name="transactions")


def _pipeline(app: typer.Typer) -> None:
    from cometmq.cli.pipeline import PASSED_ON, pipeline

    app.command(context_settings=PASSED_ON)(pipeline)


def _store(app: typer.Typer) -> None:
    from cometmq.cli.expired import expired
    from cometmq.cli.store import store
    from cometmq.cli.store_files import (
        archive_store,
        compare_stores,
        import_dledger_store,
        rebuild_store,
        restore_store,
    )

    store.command("expired")(expired)
    store.command("compare")(compare_stores)
    store.command("rebuild")(rebuild_store)
    store.command("archive")(archive_store)
    store.command("restore")(restore_store)
    store.command("import-dledger")(import_dledger_store)
    app.add_typer(store, name="store")


# In the order of --help. A function that adds several commands has several entries.
TABLE: dict[str, Entry] = {
    "up": Entry(
        _programs,
        PROGRAMS,
        "Run nameserver, broker and dashboard in one process, for this machine; with --brokers, several broker processes.",
    ),
    "nameserver": Entry(_programs, PROGRAMS, "Run a nameserver."),
    "broker": Entry(_programs, PROGRAMS, "Run a broker."),
    "config": Entry(_config, PROGRAMS, "Check configuration files before they are used."),
    "doctor": Entry(
        _doctor,
        PROGRAMS,
        "Check a cluster, and show what is wrong and what to do; status 1 if something is bad.",
    ),
    "dashboard": Entry(
        _dashboard,
        PROGRAMS,
        "Serve web pages to look after a cluster: topics, groups, messages, brokers. A login is always required.",
    ),
    "cluster": Entry(_cluster, PROGRAMS, "Show and change the brokers of a cluster."),
    "kv": Entry(_kv, PROGRAMS, "Show and change the key-value configuration of nameservers."),
    "acl": Entry(_acl, PROGRAMS, "Users and their permissions (Auth 2.0)."),
    "send": Entry(_send, MESSAGES, "Send one message, or many."),
    "tail": Entry(_tail, MESSAGES, "Show messages as they arrive."),
    "consume": Entry(_consume, MESSAGES, "Consume as a member of a group."),
    "explain": Entry(
        _explain,
        MESSAGES,
        "Explain why a group has not consumed a message; status 1 if something blocks it, or the message is not found.",
    ),
    "conflicts": Entry(
        _explain,
        MESSAGES,
        "Show groups whose members have different subscriptions or the same client id; status 1 if there are any.",
    ),
    "pipeline": Entry(
        _pipeline,
        MESSAGES,
        "Process many messages with Spark: statistics, replays, tables, mirrors, archives.",
    ),
    "topic": Entry(_topic, MESSAGES, "List, create, describe and delete topics."),
    "group": Entry(_group, MESSAGES, "Show and change consumer groups."),
    "offset": Entry(_offset, MESSAGES, "Show and reset offsets of consumer groups."),
    "message": Entry(_message, MESSAGES, "Find messages and what happened to them."),
    "dlq": Entry(
        _dlq, MESSAGES, "Dead letters: messages that a group failed to consume in all attempts."
    ),
    "transactions": Entry(_explain, MESSAGES, "Transactions without a commit or rollback."),
    "store": Entry(
        _store,
        FILES,
        "Verify, show, compare and repair the store directory of a stopped broker, also of Java's.",
    ),
}
