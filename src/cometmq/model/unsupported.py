"""Settings of RocketMQ that ask for what a program has not: refused, or warned of, by name.

Refused where the program would give less than the file promises: open where it should be guarded, alone where
it should have copies, or with data that lies where it does not look. Everything else that is asked for in vain is a
warning. A key at the value that asks for nothing says nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import Layer, environment_name


def is_true(text: str) -> bool:
    """Whether a key asks for something by being true."""
    return text.lower() == "true"


def is_set(text: str) -> bool:
    """Whether a key names something."""
    return text not in ("", "false")


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Keys that ask for the same thing.

    Attributes:
        keys: their names.
        why: what is not there, and what to do; it follows the key and its value.
        asks: whether a text of them asks for it.
        is_refused: whether the program does not start.
    """

    keys: tuple[str, ...]
    why: str
    asks: Callable[[str], bool] = is_true
    is_refused: bool = True


def asked_by_environment(table: Iterable[Unsupported], environment: Mapping[str, str]) -> Layer:
    """The unsupported settings that COMETMQ_* variables ask for, as a layer."""
    names = {key: environment_name(key) for each in table for key in each.keys}
    values = {key: environment[name] for key, name in names.items() if name in environment}
    return Layer("environment", values)


def judge(table: Iterable[Unsupported], layers: Sequence[Layer]) -> list[str]:
    """The warnings about what the layers ask for; the strongest layer of a key counts.

    Raises:
        SettingsError: what they ask for is refused.
    """
    values = {
        key: (text.strip(), layer.origin)
        for layer in layers
        for key, text in layer.values.items()
    }
    warnings = []
    for each in table:
        for key in each.keys:
            text, origin = values.get(key, ("", ""))
            if not each.asks(text):
                continue
            if each.is_refused:
                raise SettingsError(f"{origin}: {key}={text}: {each.why}")
            warnings.append(f"{origin}: {key}={text} has no effect: {each.why}")
    return warnings


# Of RocketMQ's brokers and nameservers alike. Java reads most of them as system properties; whoever writes them into a
# file wants them, too.
TLS = Unsupported(
    ("useTLS", "tlsEnable"),
    "no key of this name makes TLS, and clients would talk in the clear; name a certificate in tls.server.certPath and "
    "tls.server.keyPath",
)
