"""Runs a command's requests with clients of a cluster, once or repeatedly, and closes the clients."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cometmq.cli.output import exit_if_partial, note_absent, print_error
from cometmq.cli.patience import patient
from cometmq.cli.running import until_stopped
from cometmq.model.errors import BrokerNotFound, BrokerRefused, NetError

if TYPE_CHECKING:
    from cometmq import AsyncAdmin
    from cometmq.admin import AbsentBroker
    from cometmq.connect import ClientInstance

Result = TypeVar("Result")

WATCH_SECONDS = 2.0


class Clients(NamedTuple):
    """Clients of a command that share the connections of one instance."""

    admin: "AsyncAdmin"
    instance: "ClientInstance"


def ask(nameserver: str, work: Callable[[Clients], Awaitable[Result]]) -> Result:
    """Run `work` with clients of a cluster and return its result; Ctrl-C raises KeyboardInterrupt."""
    from cometmq.net.loop import run

    async def main() -> Result:
        return await _with_clients(nameserver, work)

    return run(main())


def ask_again(
    nameserver: str, look: Callable[[Clients], Awaitable[Result]], *, is_watched: bool
) -> Result | None:
    """Run `look` once, or 2 s after each run again (`is_watched`), until Ctrl-C or SIGTERM; return the last result or None.

    The first run must succeed. A later NetError, BrokerNotFound or BrokerRefused, as in a broker's restart, is printed
    (a repeated one once), and `look` is retried; other errors are raised.
    """
    from cometmq.net.loop import run

    last: Result | None = None

    async def work(clients: Clients) -> None:
        nonlocal last
        last = await look(clients)
        said = ""
        while is_watched:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                last = await look(clients)
            except (NetError, BrokerNotFound, BrokerRefused) as error:
                if str(error) != said:
                    print_error(f"{error}; trying again")
                said = str(error)
            else:
                said = ""

    run(until_stopped(_with_clients(nameserver, work)))
    return last


def ask_listed(
    nameserver: str,
    look: "Callable[[Clients], Awaitable[Iterable[AbsentBroker]]]",
    *,
    is_watched: bool = False,
) -> None:
    """Run `look` as `ask_again` does; then name the brokers whose data it lacks, and exit with status 1 if there are any.

    So each command that lists data of a cluster shows that its output is incomplete: `look` prints what the brokers
    answered, and returns those that could not be queried.
    """

    async def noted(clients: Clients) -> bool:
        return note_absent(await look(clients))

    exit_if_partial(ask_again(nameserver, noted, is_watched=is_watched))


async def missing_with(clients: Clients, *topics: str) -> "list[AbsentBroker]":
    """Return the brokers that left their nameserver and may have queues of one of these topics; without topics, all of them."""
    missing = await clients.admin.brokers.missing()
    return [each for each in missing if not topics or each.has_any(topics)]


async def _with_clients(
    nameserver: str, work: Callable[[Clients], Awaitable[Result]]
) -> Result:
    from cometmq import AsyncAdmin, ClientSettings
    from cometmq.connect import ClientInstance

    instance = ClientInstance(nameserver, patient(ClientSettings))
    try:
        async with AsyncAdmin(instance=instance) as admin:
            return await work(Clients(admin, instance))
    finally:
        await instance.close()
