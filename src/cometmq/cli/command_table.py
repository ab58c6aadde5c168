"""The table of commands and the modules that define them, each imported on first use; `--help` lists them from here."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer

PROGRAMS = "Programs"
MESSAGES = "Messages"
FILES = "Files"
# Each setting that is no secret is also a flag, parsed by the programs.
SETTINGS_AS_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
# Arguments after `cometmq pipeline` are parsed by the generated commands.
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


class Entry(NamedTuple):
    """A command, or a group of commands, of `cometmq`.

    Attributes:
        panel: The panel of `--help` that lists it.
        help: The first paragraph of its own help, which `--help` shows.
        modules: Modules of `cometmq.cli`: "module:name" of the command or group, then those with further commands of it.
        context: Settings of the command's context.
    """

    panel: str
    help: str
    modules: tuple[str, ...]
    context: Mapping[str, Any] = {}

    def add(self, app: typer.Typer, name: str) -> None:
        """Import the modules of the command or group, and add it to an app under its name."""
        place, _, attribute = self.modules[0].partition(":")
        found = getattr(import_module(f"cometmq.cli.{place}"), attribute)
        for module in self.modules[1:]:
            import_module(f"cometmq.cli.{module}")
        if not isinstance(found, typer.Typer):
            app.command(name, context_settings=dict(self.context))(found)
        elif found.registered_callback:
            # It has its own help, and does something without a command.
            app.add_typer(found, name=name)
        else:
            app.add_typer(found, name=name, help=self.help, no_args_is_help=True)


# In the order of --help.
TABLE: dict[str, Entry] = {
    "up": Entry(
        PROGRAMS,
        "Run nameserver, broker and dashboard in one process, for this machine; with --brokers or --members, several processes.",
        ("up:up",),
    ),
    "nameserver": Entry(
        PROGRAMS, "Run a nameserver.", ("programs:nameserver",), context=SETTINGS_AS_FLAGS
    ),
    "broker": Entry(PROGRAMS, "Run a broker.", ("programs:broker",), context=SETTINGS_AS_FLAGS),
    "proxy": Entry(
        PROGRAMS,
        "Run a proxy for gRPC clients in front of a cluster.",
        ("programs:proxy",),
        context=SETTINGS_AS_FLAGS,
    ),
    "config": Entry(
        PROGRAMS, "Check configuration files before they are used.", ("config:config",)
    ),
    "doctor": Entry(
        PROGRAMS,
        "Check a cluster, and show what is wrong and what to do; status 1 if something is bad.",
        ("doctor:doctor",),
    ),
    "dashboard": Entry(
        PROGRAMS,
        "Serve web pages to look after a cluster: topics, groups, messages, brokers. A login is always required.",
        ("dashboard:dashboard",),
    ),
    "cluster": Entry(
        PROGRAMS,
        "Show and change the brokers of a cluster.",
        ("cluster:cluster", "brokers", "roles", "members"),
    ),
    "kv": Entry(
        PROGRAMS, "Show and change the key-value configuration of nameservers.", ("kv:kv",)
    ),
    "acl": Entry(
        PROGRAMS, "Users and their permissions (Auth 2.0).", ("accounts:acl", "user_copies")
    ),
    "profile": Entry(
        PROGRAMS,
        "Clusters by name: addresses, TLS and keys for commands.",
        ("profiles:profiles",),
    ),
    "send": Entry(MESSAGES, "Send one message, or many.", ("send:send",)),
    "tail": Entry(MESSAGES, "Show messages as they arrive.", ("tail:tail",)),
    "consume": Entry(MESSAGES, "Consume as a member of a group.", ("consume:consume",)),
    "explain": Entry(
        MESSAGES,
        "Explain why a group has not consumed a message; status 1 if something blocks it, or the message is not found.",
        ("explain:explain",),
    ),
    "pipeline": Entry(
        MESSAGES,
        "Process many messages with Spark: statistics, replays, tables, mirrors, archives.",
        ("pipeline:pipeline",),
        context=PASSED_ON,
    ),
    "topic": Entry(
        MESSAGES,
        "List, show, create, change and delete topics.",
        ("topics:topics", "topic_show"),
    ),
    "group": Entry(MESSAGES, "Show and change consumer groups.", ("groups:groups", "explain")),
    "offset": Entry(
        MESSAGES, "Show and reset offsets of consumer groups.", ("offsets:offsets",)
    ),
    "message": Entry(
        MESSAGES,
        "Find messages and what happened to them.",
        ("messages:messages", "delayed", "message_trace"),
    ),
    "dlq": Entry(
        MESSAGES,
        "Dead letters: messages that a group failed to consume in all attempts.",
        ("dead_letters:letters",),
    ),
    "transactions": Entry(
        MESSAGES, "Transactions without a commit or rollback.", ("explain:transactions",)
    ),
    "store": Entry(
        FILES,
        "Verify, show, compare and repair the store directory of a stopped broker, also of Java's.",
        ("store:store", "expired", "store_files"),
    ),
}
