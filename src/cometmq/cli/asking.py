"""Decorators that make commands from functions: they add options that many commands have, and pass clients of a cluster.

    @topics.command()
    @shows
    async def describe(clients: Clients, topic: TopicName) -> Shown:

A function is awaited once, or with --watch repeatedly; what it returns is printed, and its clients are closed.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AsJson,
    Limit,
    Nameserver,
    Watch,
    Yes,
    confirm,
    keyword,
    sort_option,
)
from cometmq.cli.output import (
    note,
    note_absent,
    print_error,
    print_json,
    print_lines,
)
from cometmq.cli.patience import patient
from cometmq.cli.running import until_stopped
from cometmq.model.errors import BrokerNotFound, BrokerRefused, NetError
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq import AsyncAdmin
    from cometmq.admin import AbsentBroker
    from cometmq.connect import ClientInstance

Item = TypeVar("Item")
Result = TypeVar("Result")
Command = Callable[..., None]

WATCH_SECONDS = 2.0
_NAMESERVER = keyword("nameserver", Nameserver, NAMESERVER_DEFAULT)
_JSON = keyword("as_json", AsJson, False)
_WATCH = keyword("watch", Watch, False)
_YES = keyword("yes", Yes, False)


class Clients(NamedTuple):
    """Clients of a command that share the connections of one instance."""

    admin: "AsyncAdmin"
    instance: "ClientInstance"


class Shown(NamedTuple):
    """The output of a command, as JSON and for people.

    Attributes:
        value: Value for --json, printed on one line; with `is_lines` a list whose items have a line each.
        show: Prints it for people.
        absent: Brokers whose data it lacks. They are named on stderr, and the exit status is 1.
        is_finding: Whether the exit status is 1 for another reason, such as a problem, or because nothing was found.
        is_lines: Whether each item of `value` has its own line.
    """

    value: object
    show: Callable[[], object]
    absent: "Iterable[AbsentBroker]" = ()
    is_finding: bool = False
    is_lines: bool = False


class Choice(NamedTuple):
    """The values of --sort and --limit.

    Attributes:
        columns: Columns that lines can be sorted by.
        sort: One of them, after a '-' for the largest value first; None: lines stay in their order.
        limit: Maximum number of lines; None: all.
    """

    columns: Sequence[str]
    sort: str | None
    limit: int | None

    def of(
        self,
        lines: Iterable[Item],
        value_of: Callable[[Item, str], object] = getattr,
    ) -> list[Item]:
        """Return the first `limit` of the sorted lines; those without a value in the column (None) stand last.

        Args:
            lines: The lines, such as named tuples.
            value_of: Returns the value of a line in a column.
        """
        chosen = list(lines)
        if self.sort is not None:
            column = self.sort.removeprefix("-")
            values = [(value_of(line, column), line) for line in chosen]
            known = [pair for pair in values if pair[0] is not None]
            known.sort(key=lambda pair: _order(pair[0]), reverse=self.sort.startswith("-"))
            chosen = [line for _, line in known]
            chosen += [line for value, line in values if value is None]
        return chosen[: self.limit]


def _order(value: object) -> Any:
    if isinstance(value, Mapping):
        value = [*value.items()]
    return [*map(str, value)] if isinstance(value, list) else value


class Lines(NamedTuple):
    """The lines of a list, as a command of `lists` or `prints_list` returns them.

    Attributes:
        lines: Each has a value for each column.
        absent: As in `Shown`.
        is_finding: As in `Shown`.
        hidden: Columns that the table for people leaves out.
    """

    lines: Sequence[Sequence[object]]
    absent: "Iterable[AbsentBroker]" = ()
    is_finding: bool = False
    hidden: Sequence[str] = ()


def table(
    columns: Sequence[str],
    lines: Sequence[Sequence[object]],
    nothing: str,
    absent: "Iterable[AbsentBroker]" = (),
    *,
    is_finding: bool = False,
) -> Shown:
    """Return lines as the output of a command: an array, or for people a table, or the text `nothing` without lines."""
    return Shown(
        lines,
        lambda: print_lines(columns, lines, nothing),
        absent,
        is_finding=is_finding,
    )


# --- commands


def prints(work: Callable[..., Shown]) -> Command:
    """Make a command, with --json, that prints what `work` returns; it needs no cluster."""

    def run(work: Callable[..., Shown], as_json: bool, **given: Any) -> None:
        _exit_if(_print(work(**given), as_json=as_json))

    return made_command(work, run, _JSON)


def shows(look: Callable[..., Awaitable[Shown]]) -> Command:
    """Make a command, with --nameserver and --json, that calls `look` with clients of the cluster and prints the result."""
    return made_command(look, _print_shown, _NAMESERVER, _JSON)


def watches(look: Callable[..., Awaitable[Shown]]) -> Command:
    """Make a command as `shows` does that also has --watch: until Ctrl-C, `look` is awaited again every 2 s."""
    return made_command(look, _print_shown, _NAMESERVER, _JSON, _WATCH)


def chooses(
    columns: Sequence[str], *, limit: int | None = None
) -> Callable[[Callable[..., Awaitable[Shown]]], Command]:
    """Make a command as `watches` does that also has --sort and --limit; `look` gets them as `choice`.

    Args:
        columns: Columns that --sort accepts.
        limit: Default of --limit; None: all lines.
    """

    def run(
        look: Callable[..., Awaitable[Shown]], sort: str | None, limit: int | None, **given: Any
    ) -> None:
        _print_shown(look, choice=Choice(columns, sort, limit), **given)

    options = [_NAMESERVER, _JSON, *_choices(columns, limit), _WATCH]
    return lambda look: made_command(look, run, *options)


def lists(
    columns: Sequence[str], nothing: str
) -> Callable[[Callable[..., Awaitable[Lines]]], Command]:
    """Make a command as `chooses` does that prints lines with these columns, or for people `nothing` without lines."""

    def run(
        look: Callable[..., Awaitable[Lines]], sort: str | None, limit: int | None, **given: Any
    ) -> None:
        async def shown(clients: Clients, **own: Any) -> Shown:
            return _chosen(Choice(columns, sort, limit), nothing, await look(clients, **own))

        _print_shown(shown, **given)

    return lambda look: made_command(look, run, _NAMESERVER, _JSON, *_choices(columns), _WATCH)


def prints_list(
    columns: Sequence[str], nothing: str
) -> Callable[[Callable[..., Lines]], Command]:
    """Make a command as `lists` does that needs no cluster and has no --watch."""

    def run(
        work: Callable[..., Lines],
        as_json: bool,
        sort: str | None,
        limit: int | None,
        **given: Any,
    ) -> None:
        shown = _chosen(Choice(columns, sort, limit), nothing, work(**given))
        _exit_if(_print(shown, as_json=as_json))

    return lambda work: made_command(work, run, _JSON, *_choices(columns))


def _choices(columns: Sequence[str], limit: int | None = None) -> list[inspect.Parameter]:
    return [keyword("sort", sort_option(columns), None), keyword("limit", Limit, limit)]


def _chosen(choice: Choice, nothing: str, found: Lines) -> Shown:
    lines = choice.of(found.lines)
    places = [at for at, name in enumerate(choice.columns) if name not in found.hidden]
    columns = [choice.columns[at] for at in places]
    rows = [[line[at] for at in places] for line in lines]
    shown = table(columns, rows, nothing, found.absent, is_finding=found.is_finding)
    return shown._replace(value=lines)


def changes(
    work: Callable[..., Awaitable[str]], options: Iterable[inspect.Parameter] = ()
) -> Command:
    """Make a command, with --nameserver and `options`, that prints the sentence of `work` to stderr; it gets clients."""

    def run(work: Callable[..., Awaitable[str]], nameserver: str, **given: Any) -> None:
        note(ask(nameserver, lambda clients: work(clients, **given)))

    return made_command(work, run, *options, _NAMESERVER)


def changes_if_sure(
    question: Callable[..., str],
) -> Callable[[Callable[..., Awaitable[str]]], Command]:
    """Make a command as `changes` does that first asks a question, made from its arguments, unless --yes is given."""

    def run(
        work: Callable[..., Awaitable[str]], nameserver: str, yes: bool, **given: Any
    ) -> None:
        confirm(question(**given), yes=yes)
        note(ask(nameserver, lambda clients: work(clients, **given)))

    return lambda work: made_command(work, run, _NAMESERVER, _YES)


def made_command(
    work: Callable[..., object], run: Callable[..., None], *options: inspect.Parameter
) -> Command:
    """Make a command that calls `run(work, ...)`, with these options and the parameters of `work` that users give."""

    def command(**given: Any) -> None:
        run(work, **given)

    own = inspect.signature(work).parameters.values()
    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in own
        if each.annotation not in (Clients, Choice)
        and each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    command.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__name__, command.__module__ = work.__name__, work.__module__
    command.__doc__ = work.__doc__
    return command


def _print_shown(
    look: Callable[..., Awaitable[Shown]],
    nameserver: str,
    as_json: bool,
    watch: bool = False,
    **given: Any,
) -> None:
    async def once(clients: Clients) -> bool:
        return _print(await look(clients, **given), as_json=as_json)

    _exit_if(_ask_again(nameserver, once) if watch else ask(nameserver, once))


def _print(shown: Shown, *, as_json: bool) -> bool:
    """Print the output of a command; return whether its exit status is 1."""
    if not as_json:
        shown.show()
    elif not shown.is_lines:
        print_json(shown.value)
    else:
        assert isinstance(shown.value, list)
        for each in shown.value:
            print_json(each)
    return note_absent(shown.absent) or shown.is_finding


def _exit_if(is_finding: bool) -> None:
    if is_finding:
        raise typer.Exit(ExitStatus.FOUND)


def follows(work: Callable[..., Awaitable[None]]) -> Command:
    """Make a command, with --nameserver, that runs `work` with clients until it ends, or until Ctrl-C or SIGTERM."""

    def run(work: Callable[..., Awaitable[None]], nameserver: str, **given: Any) -> None:
        _until_stopped(nameserver, lambda clients: work(clients, **given))

    return made_command(work, run, _NAMESERVER)


# --- clients


def ask(nameserver: str, work: Callable[[Clients], Awaitable[Result]]) -> Result:
    """Run `work` with clients of a cluster and return its result; Ctrl-C raises KeyboardInterrupt."""
    from cometmq.net.loop import run

    async def main() -> Result:
        return await _with_clients(nameserver, work)

    return run(main())


def _ask_again(nameserver: str, look: Callable[[Clients], Awaitable[bool]]) -> bool:
    """Run `look`, and again 2 s after each run, until Ctrl-C or SIGTERM; return the last result.

    An error of the first run is raised; Ctrl-C or SIGTERM before its end raises KeyboardInterrupt. A later NetError,
    BrokerNotFound or BrokerRefused, as in a broker's restart, is printed (a repeated one once), and `look` is retried;
    other errors are raised.
    """
    last: bool | None = None

    async def work(clients: Clients) -> None:
        nonlocal last
        last = await look(clients)
        said = ""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                last = await look(clients)
            except (NetError, BrokerNotFound, BrokerRefused) as error:
                if str(error) != said:
                    print_error(f"{error}; trying again")
                said = str(error)
            else:
                said = ""

    _until_stopped(nameserver, work)
    if last is None:
        raise KeyboardInterrupt
    return last


def _until_stopped(nameserver: str, work: Callable[[Clients], Awaitable[None]]) -> None:
    from cometmq.net.loop import run

    run(until_stopped(_with_clients(nameserver, work)))


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
