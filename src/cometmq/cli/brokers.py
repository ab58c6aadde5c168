"""`cometmq cluster list`, `show`, `config`, `set`, `drain` and `undrain`: state, settings and drains of brokers."""

import contextlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Lines, Shown, changes, lists, watches
from cometmq.cli.cluster import cluster
from cometmq.cli.options import BrokerId, BrokerName, read_pairs
from cometmq.cli.output import print_table
from cometmq.model.text import plural, time_text

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


class BrokerNumbers(NamedTuple):
    """The output of `cometmq cluster show`.

    Attributes:
        broker: Name of the broker group.
        id: Broker id; 0 is the master.
        numbers: Its runtime values, by RocketMQ's names.
    """

    broker: str
    id: int
    numbers: Mapping[str, str]


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


@cluster.command("list")
@lists(BrokerLine._fields, "No broker is registered at the nameserver.")
async def list_brokers(clients: Clients) -> Lines:
    """Show each master and slave: rates, disk, version; status 1 when one does not answer or refuses."""
    now_ms = clients.instance.clock.now_ms()
    lines = [broker_line(state, now_ms) for state in await clients.admin.brokers.list()]
    return Lines(lines, is_finding=any(line.error for line in lines))


Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY", help="Only these settings.", autocompletion=complete.settings
    ),
]
Defaults = Annotated[
    bool, typer.Option("--defaults", help="Also settings that have their default.")
]


@cluster.command("show")
@watches
async def show_broker(clients: Clients, broker: BrokerName, broker_id: BrokerId = 0) -> Shown:
    """Show all runtime statistics that a broker reports."""
    numbers = dict(sorted((await clients.admin.brokers.runtime(broker, broker_id)).items()))
    rows = [(name, _value_text(name, value)) for name, value in numbers.items()]
    return Shown(
        BrokerNumbers(broker, broker_id, numbers),
        lambda: print_table(("name", "value"), rows),
    )


@cluster.command()
@lists(ConfigLine._fields, "All settings have their defaults; --defaults shows them.")
async def config(
    clients: Clients,
    broker: BrokerName,
    keys: Keys = None,
    *,
    defaults: Defaults = False,
    broker_id: BrokerId = 0,
) -> Lines:
    """Show settings in force, with default and source: those that are set, named ones, or with --defaults all."""
    told = await clients.admin.brokers.settings(broker, broker_id)
    lines, wanted = config_lines(told), set(keys or ())
    _check_known(broker, wanted, told)
    return Lines(
        [
            line
            for line in lines
            if line.key in wanted or (not wanted and (defaults or line.source != "default"))
        ]
    )


@cluster.command("set")
@changes
async def set_settings(
    clients: Clients,
    broker: BrokerName,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="The new values.")],
) -> str:
    """Change settings of a master while it runs.

    A CometMQ broker with a configuration FILE writes a change to FILE.overlay beside it, and leaves FILE as it is.
    """
    values = read_pairs(settings, option="KEY=VALUE")
    # RocketMQ's brokers ignore unknown keys.
    _check_known(broker, values, await clients.admin.brokers.settings(broker))
    await clients.admin.brokers.set(broker, values)
    return f"{', '.join(values)} of broker {broker} {plural(len(values), 'is', 'are')} changed."


def _check_known(broker: str, wanted: Collection[str], told: "SettingsReport") -> None:
    if missing := set(wanted).difference(told.values):
        raise typer.BadParameter(
            f"broker {broker} has no setting {', '.join(sorted(missing))}", param_hint="KEY"
        )


@cluster.command()
@changes
async def drain(clients: Clients, broker: BrokerName) -> str:
    """Have nameservers withdraw a broker's write permission, so that producers avoid it; consumers still read its messages."""
    count = await clients.admin.brokers.drain(broker)
    return (
        f"Broker {broker} accepts no new messages ({count} {plural(count, 'topic')}); producers stop sending to it "
        f"within 30 s. To undo this: cometmq cluster undrain {broker}"
    )


@cluster.command()
@changes
async def undrain(clients: Clients, broker: BrokerName) -> str:
    """Let producers send to a drained broker again."""
    count = await clients.admin.brokers.undrain(broker)
    return f"Broker {broker} accepts messages again ({count} {plural(count, 'topic')})."


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
