"""`cometmq cluster list`, `show`, `config`, `drain` and `undrain`: state, settings and drains of brokers."""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli.asking import Clients, ask, ask_again
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AsJson,
    BrokerId,
    BrokerName,
    Nameserver,
    Watch,
    read_pairs,
)
from cometmq.cli.output import notes, print_json, print_lines, print_table, time_text
from cometmq.model.exit_status import ExitStatus
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq.admin import BrokerState, SettingsReport


class BrokerLine(NamedTuple):
    """A member of a broker group in the list; values that were not reported are None.

    Attributes:
        cluster: Name of its cluster.
        broker: Name of its broker group.
        id: Broker id; 0 is the master.
        address: Address that it listens on; None if it is not registered.
        state: "up", "drained" (its routes permit no sends) or "away" (does not answer, or refuses).
        version: RocketMQ version that it reports.
        cometmq: CometMQ version that it reports; a Java broker has none.
        in_per_s: Messages written per second (not copied ones), over the last 10 s.
        out_per_s: Messages delivered per second, over the last 10 s.
        disk_percent: Used part of the disk with its commit log, percent.
        log_bytes: Size of its commit log, bytes.
        up_s: Time since its start, seconds.
        error: Why it is away.
    """

    cluster: str
    broker: str
    id: int
    address: str | None
    state: str
    version: str | None
    cometmq: str | None
    in_per_s: float | None
    out_per_s: float | None
    disk_percent: float | None
    log_bytes: int | None
    up_s: int | None
    error: str | None


class ConfigLine(NamedTuple):
    """A setting of a broker.

    Attributes:
        key: RocketMQ's name of the setting.
        value: Current value.
        default: CometMQ's default; None if it has no such setting or no default.
        source: "default", "set" (not the default: by file, environment, flag or earlier change), "changed" (remotely,
            since the start), or "unknown" (not CometMQ's default, at a RocketMQ broker, which reports no source).
        changeable: Whether CometMQ's broker lets it be changed while it runs.
    """

    key: str
    value: str
    default: str | None
    source: str
    changeable: bool


def list_brokers(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show each master and slave: rates, disk, version; status 1 when one does not answer or refuses."""

    async def look(clients: Clients) -> list[BrokerLine]:
        now_ms = clients.instance.clock.now_ms()
        states = await clients.admin.brokers.list()
        lines = [broker_line(state, now_ms) for state in states]
        print_lines(
            BrokerLine,
            lines,
            as_json=as_json,
            nothing="No broker is registered at the nameserver.",
        )
        return lines

    lines = ask_again(nameserver, look, is_watched=watch)
    if any(line.error for line in lines or ()):
        raise typer.Exit(ExitStatus.FOUND)


Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Only these settings.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change this setting, then show it; may be repeated."
    ),
]
AllSettings = Annotated[bool, typer.Option("--all", help="Also settings with their default.")]


def show_broker(
    broker: BrokerName,
    *,
    broker_id: BrokerId = 0,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show all runtime statistics that a broker reports."""

    async def look(clients: Clients) -> None:
        numbers = dict(sorted((await clients.admin.brokers.runtime(broker, broker_id)).items()))
        if as_json:
            print_json({"broker": broker, "id": broker_id, "numbers": numbers})
        else:
            rows = [(name, _value_text(name, value)) for name, value in numbers.items()]
            print_table(("name", "value"), rows)

    ask_again(nameserver, look, is_watched=watch)


def config(
    broker: BrokerName,
    keys: Keys = None,
    *,
    set_: Changes = None,
    all_: AllSettings = False,
    broker_id: BrokerId = 0,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show settings in force that are not defaults, or named ones, with default and source; --set changes a master's.

    A CometMQ broker with a configuration FILE writes a change to FILE.overlay beside it, and leaves FILE as it is.
    """
    values = read_pairs(set_ or [], option="--set")
    if values and broker_id:
        raise typer.BadParameter(
            "only the settings of a master can be changed; leave out --id, or use --id 0",
            param_hint="--id",
        )
    wanted = {*(keys or ()), *values}

    async def work(clients: Clients) -> "SettingsReport":
        if values:
            await clients.admin.brokers.set(broker, values)
        return await clients.admin.brokers.settings(broker, broker_id)

    lines = config_lines(ask(nameserver, work))
    if missing := wanted.difference(line.key for line in lines):
        raise typer.BadParameter(
            f"broker {broker} has no setting {', '.join(sorted(missing))}", param_hint="KEY"
        )
    print_lines(
        ConfigLine,
        [
            line
            for line in lines
            if line.key in wanted or (not wanted and (all_ or line.source != "default"))
        ],
        as_json=as_json,
        nothing="All settings have their defaults; --all shows them.",
    )


def drain(broker: BrokerName, *, nameserver: Nameserver = NAMESERVER_DEFAULT) -> None:
    """Have nameservers withdraw a broker's write permission, so that producers avoid it; consumers still read its messages."""
    count = ask(nameserver, lambda clients: clients.admin.brokers.drain(broker))
    notes().print(
        f"Broker {broker} accepts no new messages ({count} {plural(count, 'topic')}); producers stop sending to it "
        f"within 30 s. To undo this: cometmq cluster undrain {broker}",
        markup=False,
    )


def undrain(broker: BrokerName, *, nameserver: Nameserver = NAMESERVER_DEFAULT) -> None:
    """Let producers send to a drained broker again."""
    count = ask(nameserver, lambda clients: clients.admin.brokers.undrain(broker))
    notes().print(
        f"Broker {broker} accepts messages again ({count} {plural(count, 'topic')}).",
        markup=False,
    )


def broker_line(state: "BrokerState", now_ms: float) -> BrokerLine:
    """Return the row of a broker in the list of brokers."""
    numbers = state.runtime
    name = "up" if state.is_writable is not False else "drained"
    started_ms = _number(numbers, "bootTimestamp")
    used = _number(numbers, "commitLogDiskRatio")
    log = [_number(numbers, key) for key in ("commitLogMinOffset", "commitLogMaxOffset")]
    return BrokerLine(
        state.cluster,
        state.broker_name,
        state.broker_id,
        state.address or None,
        "away" if state.error else name,
        numbers.get("brokerVersionDesc"),
        numbers.get("cometmqVersion"),
        _number(numbers, "putTps"),
        _number(numbers, "getTransferredTps"),
        None if used is None else round(used * 100, 1),
        None if log[0] is None or log[1] is None else int(log[1] - log[0]),
        None if started_ms is None else max(int(now_ms - started_ms) // 1000, 0),
        state.error,
    )


def _value_text(name: str, value: str) -> str:
    """Return a runtime statistic as text; a time in ms since 1970 as a date."""
    if name.lower().endswith("timestamp") and value.isdecimal() and int(value) > 0:
        with contextlib.suppress(ValueError, OverflowError, OSError):
            return time_text(int(value))
    return value


def _number(numbers: Mapping[str, str], key: str) -> float | None:
    """Return the first number of a runtime statistic, of rates that over 10 s; None if it is missing or no number."""
    with contextlib.suppress(ValueError, IndexError):
        return float(numbers.get(key, "").split()[0])
    return None


def config_lines(told: "SettingsReport") -> list[ConfigLine]:
    """Return each setting of a broker with CometMQ's default and the source of its value."""
    from cometmq.broker.settings.broker_settings import BrokerSettings
    from cometmq.model.settings import setting_keys, settings_table

    defaults: dict[str, Any] = settings_table(BrokerSettings())
    changeable = {key.name for key in setting_keys(BrokerSettings) if key.is_remote}
    return [
        ConfigLine(
            key, value, defaults.get(key), _source(told, key, defaults), key in changeable
        )
        for key, value in sorted(told.values.items())
    ]


def _source(told: "SettingsReport", key: str, defaults: Mapping[str, str]) -> str:
    if key in told.changed:
        return "changed"
    if told.set_keys is None:
        return "default" if told.values[key] == defaults.get(key) else "unknown"
    return "set" if key in told.set_keys else "default"
