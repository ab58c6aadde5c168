"""The table of commands and the modules that define them, each imported on first use."""

from collections.abc import Callable

import typer

PROGRAMS = "Programs"
MESSAGES = "Messages"
FILES = "Files"


def _programs(app: typer.Typer) -> None:
    from cometmq.cli.programs import SETTINGS_AS_FLAGS, broker, nameserver, up

    app.command(rich_help_panel=PROGRAMS)(up)
    app.command(rich_help_panel=PROGRAMS, context_settings=SETTINGS_AS_FLAGS)(nameserver)
    app.command(rich_help_panel=PROGRAMS, context_settings=SETTINGS_AS_FLAGS)(broker)


def _dashboard(app: typer.Typer) -> None:
    from cometmq.cli.dashboard import dashboard

    app.add_typer(dashboard, name="dashboard", rich_help_panel=PROGRAMS)


def _cluster(app: typer.Typer) -> None:
    from cometmq.cli.brokers import config, drain, list_brokers, show_broker, undrain
    from cometmq.cli.cluster import cluster

    cluster.command("list")(list_brokers)
    cluster.command("show")(show_broker)
    cluster.command("config")(config)
    cluster.command("drain")(drain)
    cluster.command("undrain")(undrain)
    app.add_typer(cluster, name="cluster", rich_help_panel=PROGRAMS)


def _doctor(app: typer.Typer) -> None:
    from cometmq.cli.doctor import doctor

    app.command(rich_help_panel=PROGRAMS)(doctor)


def _acl(app: typer.Typer) -> None:
    from cometmq.cli.accounts import acl
    from cometmq.cli.user_copies import copy_users

    acl.command("copy")(copy_users)
    app.add_typer(acl, name="acl", rich_help_panel=PROGRAMS)


def _topic(app: typer.Typer) -> None:
    from cometmq.cli.topic_stats import perm, queues, stats
    from cometmq.cli.topics import topics

    topics.command("queues")(queues)
    topics.command("stats")(stats)
    topics.command("perm")(perm)
    app.add_typer(topics, name="topic", rich_help_panel=MESSAGES)


def _group(app: typer.Typer) -> None:
    from cometmq.cli.groups import groups

    app.add_typer(groups, name="group", rich_help_panel=MESSAGES)


def _offset(app: typer.Typer) -> None:
    from cometmq.cli.offsets import offsets

    app.add_typer(offsets, name="offset", rich_help_panel=MESSAGES)


def _message(app: typer.Typer) -> None:
    from cometmq.cli.delayed import delayed, recall
    from cometmq.cli.message_trace import resend, trace
    from cometmq.cli.messages import messages

    messages.command("delayed")(delayed)
    messages.command("recall")(recall)
    messages.command("trace")(trace)
    messages.command("resend")(resend)
    app.add_typer(messages, name="message", rich_help_panel=MESSAGES)


def _dlq(app: typer.Typer) -> None:
    from cometmq.cli.dead_letters import letters

    app.add_typer(letters, name="dlq", rich_help_panel=MESSAGES)


def _send(app: typer.Typer) -> None:
    from cometmq.cli.send import send

    app.command(rich_help_panel=MESSAGES)(send)


def _tail(app: typer.Typer) -> None:
    from cometmq.cli.tail import tail

    app.command(rich_help_panel=MESSAGES)(tail)


def _consume(app: typer.Typer) -> None:
    from cometmq.cli.consume import consume

    app.command(rich_help_panel=MESSAGES)(consume)


def _explain(app: typer.Typer) -> None:
    from cometmq.cli.explain import conflicts, explain, transactions

    app.command(rich_help_panel=MESSAGES)(explain)
    app.command(rich_help_panel=MESSAGES)(conflicts)
    app.add_typer(transactions, name="transactions", rich_help_panel=MESSAGES)


def _pipeline(app: typer.Typer) -> None:
    from cometmq.cli.pipeline import PASSED_ON, pipeline

    app.command(rich_help_panel=MESSAGES, context_settings=PASSED_ON)(pipeline)


def _store(app: typer.Typer) -> None:
    from cometmq.cli.expired import expired
    from cometmq.cli.store import store
    from cometmq.cli.store_files import (
        archive_store,
        compare_stores,
        rebuild_store,
        restore_store,
    )

    store.command("expired")(expired)
    store.command("compare")(compare_stores)
    store.command("rebuild")(rebuild_store)
    store.command("archive")(archive_store)
    store.command("restore")(restore_store)
    app.add_typer(store, name="store", rich_help_panel=FILES)


# In the order of --help. A function that adds several commands has several entries.
TABLE: dict[str, Callable[[typer.Typer], None]] = {
    "up": _programs,
    "nameserver": _programs,
    "broker": _programs,
    "doctor": _doctor,
    "dashboard": _dashboard,
    "cluster": _cluster,
    "acl": _acl,
    "send": _send,
    "tail": _tail,
    "consume": _consume,
    "explain": _explain,
    "conflicts": _explain,
    "pipeline": _pipeline,
    "topic": _topic,
    "group": _group,
    "offset": _offset,
    "message": _message,
    "dlq": _dlq,
    "transactions": _explain,
    "store": _store,
}
