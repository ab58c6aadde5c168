"""Shell completion of the names of topics, groups, brokers and keys (TAB), queried from the cluster.

The nameserver is that of the command line, of NAMESRV_ADDR, or of this machine; no answer in 2 s: no completion.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import typer

from cometmq.model.errors import CometError
from cometmq.model.names import ORDER_NAMESPACE

if TYPE_CHECKING:
    from cometmq import AsyncAdmin

_SECONDS_MAX = 2.0  # A shell that waits longer looks dead.


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the printable topic names that begin with the incomplete word; none if the query fails or lasts 2 s."""
    return _offered(context, incomplete, lambda admin: admin.topics.list())


def groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the printable group names that begin with the incomplete word; none if the query fails or lasts 2 s."""
    return _offered(context, incomplete, lambda admin: admin.groups.configs())


def brokers(context: typer.Context, incomplete: str) -> list[str]:
    """Return the printable broker names that begin with the incomplete word; none if the query fails or lasts 2 s."""

    async def names(admin: "AsyncAdmin") -> Iterable[str]:
        return (await admin.brokers.cluster()).brokers

    return _offered(context, incomplete, names)


def kv_namespaces(incomplete: str) -> list[str]:
    """Return the known namespaces of the key-value configuration that begin with the incomplete word."""
    return [name for name in (ORDER_NAMESPACE,) if name.startswith(incomplete)]


def kv_keys(context: typer.Context, incomplete: str) -> list[str]:
    """Return the printable keys of a namespace that begin with the incomplete word; none if the query fails or lasts 2 s."""
    namespace = context.params.get("namespace") or ""
    return _offered(context, incomplete, lambda admin: admin.brokers.kv_values(namespace))


def _offered(
    context: typer.Context,
    incomplete: str,
    ask: "Callable[[AsyncAdmin], Awaitable[Iterable[str]]]",
) -> list[str]:
    from cometmq import AsyncAdmin
    from cometmq.net.loop import run

    async def names() -> Iterable[str]:
        async with asyncio.timeout(_SECONDS_MAX), AsyncAdmin(nameserver) as admin:
            return await ask(admin)

    nameserver = context.params.get("nameserver")
    found: Iterable[str] = ()
    with contextlib.suppress(CometError, OSError, TimeoutError):
        found = run(names())
    # A terminal would execute control characters in a name.
    return sorted(name for name in found if name.startswith(incomplete) and name.isprintable())
