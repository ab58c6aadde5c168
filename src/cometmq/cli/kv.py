"""`cometmq kv`: the key-value configuration of the nameservers, by namespace."""

from typing import Annotated, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Lines, Shown, ask, changes, lists, shows
from cometmq.cli.options import NAMESERVER_DEFAULT, Nameserver, Yes, confirm
from cometmq.cli.output import note, screen
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes, printable

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

kv = typer.Typer()


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
@lists(KvLine._fields, "This namespace has no keys.")
async def list_values(clients: Clients, namespace: Namespace) -> Lines:
    """List the keys and values of a namespace."""
    values = await clients.admin.brokers.kv_values(namespace)
    return Lines([KvLine(namespace, key, value) for key, value in sorted(values.items())])


@kv.command()
@shows
async def show(clients: Clients, namespace: Namespace, key: Key) -> Shown:
    """Print the value of a key."""
    line = KvLine(namespace, key, await _value(clients, namespace, key))
    return Shown(line, lambda: screen().print(printable(line.value), markup=False))


@kv.command("set")
@changes
async def set_value(
    clients: Clients,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")],
) -> str:
    """Set the value of a key at every nameserver."""
    await clients.admin.brokers.set_kv_value(namespace, key, value)
    return f"Key {key} of {namespace} is set."


@kv.command()
def delete(
    namespace: Namespace,
    key: Key,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    yes: Yes = False,
) -> None:
    """Delete a key and its value from every nameserver."""
    value = ask(nameserver, lambda clients: _value(clients, namespace, key))
    confirm(f"Delete key {key} of {namespace}, which has the value {value}?", yes=yes)
    ask(nameserver, lambda clients: clients.admin.brokers.delete_kv_value(namespace, key))
    note(f"Key {key} of {namespace} is deleted.")


async def _value(clients: Clients, namespace: str, key: str) -> str:
    """Return the value of a key; raise SettingsError if there is no such key, for which deleting would report success."""
    value = (await clients.admin.brokers.kv_values(namespace)).get(key)
    if value is None:
        raise SettingsError(
            f"namespace {in_quotes(namespace)} has no key {in_quotes(key)}; "
            f"cometmq kv list {namespace} lists its keys"
        )
    return value
