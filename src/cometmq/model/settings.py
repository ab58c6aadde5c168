"""Settings of a program as a frozen dataclass, whose fields mostly have RocketMQ's keys.

    @dataclass(frozen=True, slots=True)
    class NameServerSettings:
        listen_port: int = setting(9876, least=0, most=65535)

A field's key is its camelCase form (`listenPort`) or the argument `key`. Values come in layers of texts, of which the
later ones override the earlier: default < file < overlay < environment < command line. `model.judged_keys` reads them,
and says what becomes of unknown keys. Unknown flags, also RocketMQ's, are errors; most unknown COMETMQ_* variables are
ignored.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from cometmq.model.address import without_brackets
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.rocketmq_keys import USED, WITHOUT_EFFECT, why_without_effect
from cometmq.model.text import nearest

ENVIRONMENT_PREFIX = "COMETMQ_"
# Shown instead of the value of a secret.
HIDDEN = "******"

Settings = TypeVar("Settings")

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")  # Python parses no number of more than 4,300 digits.


def setting(
    default: Any,
    *,
    key: str | None = None,
    aliases: tuple[str, ...] = (),
    least: int | None = None,
    most: int | None = None,
    is_remote: bool = False,
    has_effect: bool = True,
    is_secret: bool = False,
    is_host: bool = False,
    differs: str = "",
) -> Any:
    """Return the dataclass field that defines a setting in a settings class.

    Args:
        default: Value if no layer has one.
        key: Key in files, if it is not the camelCase form of the attribute.
        aliases: Older names of the key.
        least: Smallest allowed number.
        most: Largest allowed number.
        is_remote: Whether a request may change it while the program runs; never for paths or addresses.
        has_effect: False for a setting of RocketMQ that is not implemented yet; a value other than the default causes a
            warning. `model.rocketmq_keys` has those that never will be (a thread pool).
        is_secret: Whether its value is hidden and not accepted as a flag.
        is_host: Whether it is an address or host name; brackets around it are removed, and an empty text is the default.
        differs: What a value that is set means here, other than in RocketMQ.
    """
    metadata = {
        "key": key,
        "aliases": aliases,
        "least": least,
        "most": most,
        "is_remote": is_remote,
        "has_effect": has_effect,
        "is_secret": is_secret,
        "is_host": is_host,
        "differs": differs,
    }
    return dataclasses.field(default=default, metadata=metadata, repr=not is_secret)


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A field of a settings class as users see it.

    Attributes:
        attribute: Name of the class attribute.
        name: Key in files.
        aliases: Older names of the key.
        default: Value if it is not set.
        read: Parses a text; raises ValueError with the allowed values if it is not allowed.
        is_remote: Whether a request may change it.
        has_effect: Whether it has any effect here.
        is_secret: Whether its value is hidden.
        differs: What a value that is set means here, other than in RocketMQ; empty for most.
    """

    attribute: str
    name: str
    aliases: tuple[str, ...]
    default: Any
    read: Callable[[str], Any]
    is_remote: bool
    has_effect: bool
    is_secret: bool
    differs: str

    @property
    def environment_name(self) -> str:
        """Environment variable of the key: COMETMQ_LISTEN_PORT for `listenPort`."""
        return environment_name(self.name)

    @property
    def flag_name(self) -> str:
        """Flag of the key: --listen-port for `listenPort`."""
        return flag_name(self.name)


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one source.

    Attributes:
        origin: Description of the source for messages ("broker.conf", "environment").
        values: Texts by key.
    """

    origin: str
    values: Mapping[str, str]


def setting_keys(kind: type) -> tuple[SettingKey, ...]:
    """Return a `SettingKey` for each field of a settings class, in the order of the fields."""
    hints = get_type_hints(kind)
    keys = []
    for field in dataclasses.fields(kind):
        meta = field.metadata
        name = meta.get("key") or _camel(field.name)
        read = (
            _host_reader(field.default)
            if meta.get("is_host")
            else _reader(hints[field.name], meta.get("least"), meta.get("most"))
        )
        keys.append(
            SettingKey(
                field.name, name, meta.get("aliases", ()), field.default, read,
                meta.get("is_remote", False), meta.get("has_effect", True), meta.get("is_secret", False),
                meta.get("differs", ""),
            )
        )  # fmt: skip
    return tuple(keys)


def settings_by_name(kind: type) -> dict[str, SettingKey]:
    """Return each `SettingKey` of a settings class by its name, and by its aliases."""
    return {name: key for key in setting_keys(kind) for name in (key.name, *key.aliases)}


def environment_name(key: str) -> str:
    """Return the environment variable of a key: COMETMQ_LISTEN_PORT for `listenPort`."""
    return ENVIRONMENT_PREFIX + _HUMP.sub("_", key).replace(".", "_").upper()


def flag_name(key: str) -> str:
    """Return the flag of a key: --listen-port for `listenPort`."""
    return "--" + _HUMP.sub("-", key).replace(".", "-").lower()


def environment_layer(kind: type, environment: Mapping[str, str]) -> Layer:
    """Return the settings in COMETMQ_* variables (of keys, not aliases) as a `Layer`; others are ignored."""
    names = {key.name: key.environment_name for key in setting_keys(kind)}
    values = {name: environment[env] for name, env in names.items() if env in environment}
    return Layer("environment", values)


def flags_layer(kind: type, arguments: Sequence[str]) -> Layer:
    """Parse flags (`--listen-port 0`) to a `Layer`; raise SettingsError if unknown or secret, or the last has no value."""
    names = {key.flag_name: key.name for key in setting_keys(kind)}
    secrets = secret_names(kind)
    values: dict[str, str] = {}
    waiting = list(arguments)
    while waiting:
        flag, separator, text = waiting.pop(0).partition("=")
        if flag not in names:
            raise SettingsError(f"command line: {_unknown_flag(flag, names)}")
        if names[flag] in secrets:
            raise SettingsError(
                f"command line: {flag} is a secret, and every user of the machine can see command lines: write it into "
                f"the file, or into {environment_name(names[flag])}"
            )
        if not separator:
            if not waiting:
                raise SettingsError(f"command line: {flag} needs a value")
            text = waiting.pop(0)
        values[names[flag]] = text
    return Layer("command line", values)


def settings_table(settings: Any) -> dict[str, str]:
    """Return a dict of all current values but None as texts by key, sorted; non-empty secrets are `HIDDEN`."""
    table = {}
    for key in setting_keys(type(settings)):
        value = getattr(settings, key.attribute)
        if value is not None:
            table[key.name] = HIDDEN if key.is_secret and value else _text(value)
    return dict(sorted(table.items()))


def set_keys(settings: Any) -> list[str]:
    """Return a sorted list of the keys whose current value differs from the default."""
    keys = setting_keys(type(settings))
    return sorted(key.name for key in keys if getattr(settings, key.attribute) != key.default)


class SettingsInForce(Generic[Settings]):
    """The settings of a running program: one object shared by all of its parts, which `change` changes in place.

    Code that keeps values derived from settings must register in `on_change`.

    Attributes:
        current: The current settings, at first a copy of the given ones.
        keep: Persists changes for the next start; may block on the disk and raise OSError. `change` does not call it.
        changed: Keys that `change` has set.
        on_change: Callbacks without arguments, called after each change.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        check: Callable[[Settings], object] | None = None,
        keep: Callable[[Mapping[str, str]], object] | None = None,
    ) -> None:
        """Copy `settings`; `read` and `change` pass the changed settings to `check`, which may raise SettingsError."""
        self.current: Settings = dataclasses.replace(settings)  # type: ignore[type-var]
        self._check = check
        self.keep: Callable[[Mapping[str, str]], object] = keep or (lambda _values: None)
        self.changed: set[str] = set()
        self.on_change: list[Callable[[], object]] = []

    def refused(self, values: Mapping[str, str]) -> list[str]:
        """Return the keys of a change that are unknown or that no request may change; values are not checked."""
        by_name = settings_by_name(type(self.current))
        return [name for name in values if name not in by_name or not by_name[name].is_remote]

    def read(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Parse a change (texts by key) to values by attribute, not applying it; raise SettingsError for a wrong value.

        Raises KeyError for an unknown key; does not check whether a request may change a known one.
        """
        by_name = settings_by_name(type(self.current))
        changes = {
            by_name[name].attribute: _read(by_name[name], text, "change")
            for name, text in values.items()
        }
        if self._check is not None:
            self._check(dataclasses.replace(self.current, **changes))  # type: ignore[type-var]
        return changes

    def change(self, values: Mapping[str, str], *, is_own: bool = False) -> None:
        """Apply changes, all or none, and call `on_change`; raise SettingsError for a forbidden key or a wrong value.

        With `is_own`, the program itself makes the change: all known keys are allowed, an unknown one raises KeyError.
        """
        if not is_own and (refused := self.refused(values)):
            raise SettingsError(
                f"{', '.join(refused)}: cannot be changed by a request; change it in the configuration file and "
                "restart"
            )
        by_name, changes = settings_by_name(type(self.current)), self.read(values)
        for attribute, value in changes.items():
            object.__setattr__(self.current, attribute, value)
        self.changed.update(by_name[name].name for name in values)
        for callback in self.on_change:
            callback()


def secret_names(kind: type) -> frozenset[str]:
    """Return the keys and aliases of the secret settings of a settings class."""
    return frozenset(
        name for key in setting_keys(kind) if key.is_secret for name in (key.name, *key.aliases)
    )


def _unknown_flag(flag: str, known: Iterable[str]) -> str:
    for key in (*WITHOUT_EFFECT, *USED):
        if flag == flag_name(key):
            return f"{flag} has no effect here: {why_without_effect(key)}"
    near = nearest(flag, known)
    return f"unknown setting {flag}" + (f"; did you mean {near}?" if near else "")


def _read(key: SettingKey, text: str, origin: str) -> Any:
    try:
        return key.read(text.strip())
    except ValueError as error:
        said = HIDDEN if key.is_secret else text.strip()
        raise SettingsError(f"{origin}: {key.name}={said} must be {error}") from None


def _host_reader(default: Any) -> Callable[[str], Any]:
    return lambda text: without_brackets(text) or default


def _reader(kind: Any, least: int | None, most: int | None) -> Callable[[str], Any]:
    if isinstance(kind, UnionType):
        inner = next(option for option in get_args(kind) if option is not NoneType)
        read_inner = _reader(inner, least, most)
        return lambda text: read_inner(text) if text else None
    if kind is bool:
        return _read_bool
    if kind is int:
        return lambda text: _read_int(text, least, most)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda text: _read_enum(text, kind)
    assert kind is str, f"no setting can be of the kind {kind}"
    return str


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _read_int(text: str, least: int | None, most: int | None) -> int:
    wanted = "a whole number"
    if least is not None:
        wanted += f" from {least}"
    if most is not None:
        wanted += f" up to {most}"
    if not _INTEGER.fullmatch(text):
        raise ValueError(wanted)
    number = int(text)
    if (least is not None and number < least) or (most is not None and number > most):
        raise ValueError(wanted)
    return number


def _read_enum(text: str, kind: type[Enum]) -> Enum:
    try:
        return kind[text if text in kind.__members__ else text.lower()]
    except KeyError:
        raise ValueError("one of " + ", ".join(kind.__members__)) from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.name if isinstance(value, Enum) else str(value)


def _camel(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)
