"""Checks for settings of RocketMQ that ask for unsupported features: refused, or warned about, by name.

Broker and nameserver each have a table of such settings, which `model.judged_keys` applies. One is refused if the program
would provide less than its user expects, for example be open instead of protected; the others cause a warning. A value
that asks for nothing is ignored.
"""

from collections.abc import Callable, Iterable, Mapping

from cometmq.model.frozen import dataclass
from cometmq.model.settings import Layer, environment_name


def is_true(text: str) -> bool:
    """Return whether the text of a setting is "true", ignoring upper and lower case."""
    return text.lower() == "true"


def is_set(text: str) -> bool:
    """Return whether the text of a setting is anything but empty or "false"."""
    return text not in ("", "false")


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Keys that ask for the same unsupported feature.

    Attributes:
        keys: Names of the keys.
        why: What is missing and what to do; follows the key and its value in messages.
        asks: Returns whether the text of a key asks for the feature.
        is_refused: Whether the program refuses to start if a key asks for the feature; otherwise it warns.
    """

    keys: tuple[str, ...]
    why: str
    asks: Callable[[str], bool] = is_true
    is_refused: bool = True


def asked_by_environment(table: Iterable[Unsupported], environment: Mapping[str, str]) -> Layer:
    """Return the settings of a table that COMETMQ_* variables set, whatever their value, as a layer."""
    names = {key: environment_name(key) for each in table for key in each.keys}
    values = {key: environment[name] for key, name in names.items() if name in environment}
    return Layer("environment", values)


# For brokers and nameservers. Java reads most of these from system properties; in a file they ask for TLS, too.
TLS = Unsupported(
    ("useTLS", "tlsEnable"),
    "this setting does not enable TLS, so clients would connect in cleartext; name a certificate in "
    "tls.server.certPath and tls.server.keyPath",
)
# The keys that RocketMQ's own lists have.
_ON_BLACK_LIST = {"configBlackList", "brokerConfigPath", "configStorePath", "kvConfigPath"}
BLACK_LIST = Unsupported(
    ("configBlackList",),
    "requests can change only the settings that are documented as changeable while the program runs, and are only "
    "accepted from this machine",
    asks=lambda text: not _ON_BLACK_LIST.issuperset(filter(None, text.split(";"))),
    is_refused=False,
)
