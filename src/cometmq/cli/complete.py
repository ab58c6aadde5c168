"""Shell completion of the names of topics, groups, brokers, clusters, users, settings and keys (TAB), queried from the cluster.

The nameserver is that of the command line, of a profile, of NAMESRV_ADDR, or of this machine; no answer in 2 s: no completion.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from cometmq.cli import profile_files
from cometmq.model.errors import CometError
from cometmq.model.names import ORDER_NAMESPACE

if TYPE_CHECKING:
    from cometmq import AsyncAdmin

_SECONDS_MAX = 2.0  # A shell that waits longer looks dead.


def _names(
    ask: "Callable[[AsyncAdmin, Mapping[str, Any]], Awaitable[Iterable[str]]]",
) -> Callable[[typer.Context, str], list[str]]:
    """Return a completion: the printable names that begin with the incomplete word; none if the query fails or lasts 2 s.

    Args:
        ask: Queries the names, with an admin client and the parameters that the command line has so far.
    """

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from cometmq import AsyncAdmin
        from cometmq.net.loop import run

        async def names() -> Iterable[str]:
            async with asyncio.timeout(_SECONDS_MAX), AsyncAdmin(nameserver) as admin:
                return await ask(admin, context.params)

        found: Iterable[str] = ()
        with contextlib.suppress(CometError, OSError, TimeoutError):
            profile_files.follow(context.find_root().params.get("profile"))
            # What no flag names is left to the variables of the environment, which a profile sets.
            source = context.get_parameter_source("nameserver")
            is_flag = source is not None and source.name == "COMMANDLINE"
            nameserver = context.params.get("nameserver") if is_flag else None
            found = run(names())
        # A terminal would execute control characters in a name.
        return sorted(
            name for name in found if name.startswith(incomplete) and name.isprintable()
        )

    return complete


async def _brokers(admin: "AsyncAdmin", _: Mapping[str, Any]) -> Iterable[str]:
    return (await admin.brokers.cluster()).brokers


async def _clusters(admin: "AsyncAdmin", _: Mapping[str, Any]) -> Iterable[str]:
    return (await admin.brokers.cluster()).broker_names


async def _producer_groups(admin: "AsyncAdmin", _: Mapping[str, Any]) -> Iterable[str]:
    return {each.group for each in (await admin.groups.producers()).found}


async def _users(admin: "AsyncAdmin", _: Mapping[str, Any]) -> Iterable[str]:
    return {each.user for each in (await admin.users.list(with_policies=False)).users}


async def _settings(admin: "AsyncAdmin", given: Mapping[str, Any]) -> Iterable[str]:
    return (await admin.brokers.settings(given.get("broker") or "")).values


topics = _names(lambda admin, _: admin.topics.list())
groups = _names(lambda admin, _: admin.groups.configs())
brokers = _names(_brokers)
clusters = _names(_clusters)
producer_groups = _names(_producer_groups)
users = _names(_users)
settings = _names(_settings)  # Of the broker that the command line names.
kv_keys = _names(lambda admin, given: admin.brokers.kv_values(given.get("namespace") or ""))


def profiles(incomplete: str) -> list[str]:
    """Return the names of the user's profiles that begin with the incomplete word."""
    return [name for name in profile_files.names() if name.startswith(incomplete)]


def kv_namespaces(incomplete: str) -> list[str]:
    """Return the known namespaces of the key-value configuration that begin with the incomplete word."""
    return [name for name in (ORDER_NAMESPACE,) if name.startswith(incomplete)]
