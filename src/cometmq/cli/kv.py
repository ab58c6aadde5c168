"""`cometmq kv`: the key-value configuration of the nameservers, by namespace."""

from typing import Annotated, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, ask
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AsJson,
    Nameserver,
    Yes,
    confirm,
)
from cometmq.cli.output import notes, print_json, print_lines, screen
from cometmq.cli.visible import visible
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

Namespace = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE",
        help="The namespace of the keys, such as ORDER_TOPIC_CONFIG.",
        autocompletion=complete.kv_namespaces,
    ),
]
Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The key.", autocompletion=complete.kv_keys)
]

kv = typer.Typer(
    help="Show and change the key-value configuration of nameservers.", no_args_is_help=True
)


class KvLine(NamedTuple):
    """A value of the key-value configuration.

    Attributes:
        namespace: Namespace of the key.
        key: Key within the namespace.
        value: The value.
    """

    namespace: str
    key: str
    value: str


@kv.command("list")
def list_values(
    namespace: Namespace,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the keys and values of a namespace."""
    values = _values(nameserver, namespace)
    print_lines(
        KvLine,
        [KvLine(namespace, key, value) for key, value in sorted(values.items())],
        as_json=as_json,
        nothing="This namespace has no keys.",
    )


@kv.command()
def show(
    namespace: Namespace,
    key: Key,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Print the value of a key."""
    line = KvLine(namespace, key, _value(nameserver, namespace, key))
    if as_json:
        print_json(line._asdict())
    else:
        screen().print(visible(line.value), markup=False)


@kv.command("set")
def set_value(
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")],
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Set the value of a key at every nameserver."""

    async def change(clients: Clients) -> None:
        await clients.admin.brokers.set_kv_value(namespace, key, value)

    ask(nameserver, change)
    notes().print(visible(f"Key {key} of {namespace} is set."), style="dim", markup=False)


@kv.command()
def delete(
    namespace: Namespace,
    key: Key,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    yes: Yes = False,
) -> None:
    """Delete a key and its value from every nameserver."""
    value = _value(nameserver, namespace, key)
    confirm(f"Delete key {key} of {namespace}, which has the value {value}?", yes=yes)

    async def change(clients: Clients) -> None:
        await clients.admin.brokers.delete_kv_value(namespace, key)

    ask(nameserver, change)
    notes().print(visible(f"Key {key} of {namespace} is deleted."), style="dim", markup=False)


def _values(nameserver: str, namespace: str) -> dict[str, str]:
    async def look(clients: Clients) -> dict[str, str]:
        return await clients.admin.brokers.kv_values(namespace)

    return ask(nameserver, look)


def _value(nameserver: str, namespace: str, key: str) -> str:
    """Return the value of a key; raise SettingsError if there is no such key, for which deleting would report success."""
    value = _values(nameserver, namespace).get(key)
    if value is None:
        raise SettingsError(
            f"namespace {in_quotes(namespace)} has no key {in_quotes(key)}; "
            f"cometmq kv list {namespace} lists its keys"
        )
    return value
