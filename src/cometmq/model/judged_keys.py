"""Judges each key of a program's configuration: used, refused, or without effect, and why.

A program's start and `cometmq config check` call the same function, so they cannot disagree.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from cometmq.model.errors import SettingsError
from cometmq.model.rocketmq_keys import ROCKETMQ_KEYS, WITHOUT_EFFECT, why_without_effect
from cometmq.model.settings import HIDDEN, Layer, SettingKey, settings_by_name
from cometmq.model.text import as_utf8, cut, nearest, printable
from cometmq.model.unsupported import Unsupported

Settings = TypeVar("Settings")

# A byte order mark of UTF-8, as RocketMQ and we read it (Latin-1).
BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf"
_SECRET_WORDS = ("secret", "password", "credentials")
_TEXT_MAX = 200
_NOT_ASKED = "its feature is missing here, but this value does not ask for it"


class KeyVerdict(Enum):
    """Verdicts on a key, or on a file as a whole; the worst first.

    REFUSED: The program does not start.
    DOUBTFUL: The program starts, but may not work as meant.
    MISSING: The key asks for something that is missing here; the program warns of it and starts.
    MISPLACED: It is a key of another program, without effect here; the program warns of it and starts.
    UNKNOWN: Neither CometMQ nor RocketMQ has it; the program warns of it and starts.
    DIFFERS: It is used, but means something else than in RocketMQ.
    NO_EFFECT: It changes nothing here, which is no loss.
    USED: The program uses it.
    """

    REFUSED = "refused"
    DOUBTFUL = "doubtful"
    MISSING = "missing"
    MISPLACED = "misplaced"
    UNKNOWN = "unknown"
    DIFFERS = "differs"
    NO_EFFECT = "no effect"
    USED = "used"


WARNED = (KeyVerdict.DOUBTFUL, KeyVerdict.MISSING, KeyVerdict.MISPLACED, KeyVerdict.UNKNOWN)


class JudgedKey(NamedTuple):
    """A key of a layer of settings, and what becomes of it.

    Attributes:
        origin: Description of the layer.
        key: The key as written.
        text: Its value as written, for people: `HIDDEN` for a secret, on one line, cut if it is long.
        verdict: What becomes of it.
        why: The reason; empty if it is used, and for an unknown key unless a similar one is known.
    """

    origin: str
    key: str
    text: str
    verdict: KeyVerdict
    why: str

    def refusal(self) -> SettingsError:
        """Return, without raising it, the error of a key that is refused."""
        gap = " " if self.why.startswith("must ") else ": "
        return SettingsError(f"{self.origin}: {self.key}={self.text}{gap}{self.why}")


class Reading(NamedTuple):
    """Settings read from layers: each key with its verdict, and the readable values by attribute."""

    judged: list[JudgedKey]
    values: dict[str, Any]


def judge_keys(
    kind: type, layers: Sequence[Layer], unsupported: Iterable[Unsupported] = ()
) -> Reading:
    """Judge all keys of layers, from lowest to highest priority, for a settings class; raises nothing.

    Of a key of `unsupported`, only the value of the highest layer counts.
    """
    by_name = settings_by_name(kind)
    asked = {key: each for each in unsupported for key in each.keys}
    last = {key: layer for layer in layers for key in layer.values}
    reading = Reading([], {})
    for layer in layers:
        for name, given in layer.values.items():
            text, key, missed = given.strip(), by_name.get(name), asked.get(name)
            if missed is not None and last[name] is layer and missed.asks(text):
                verdict = KeyVerdict.REFUSED if missed.is_refused else KeyVerdict.MISSING
                why = missed.why
            elif key is None and missed is not None:
                verdict, why = KeyVerdict.NO_EFFECT, _NOT_ASKED
            elif key is None:
                verdict, why = judge_other(name, text, by_name)
            else:
                verdict, why = KeyVerdict.USED, ""
            if key is not None:
                try:
                    reading.values[key.attribute] = value = key.read(text)
                    if verdict is KeyVerdict.USED:
                        verdict, why = _of_own(key, value)
                except ValueError as error:
                    verdict, why = (
                        KeyVerdict.REFUSED,
                        f"must be {error}{_as_rocketmq(key, text)}",
                    )
            reading.judged.append(
                JudgedKey(layer.origin, name, shown_value(name, text, key), verdict, why)
            )
    return reading


def read_settings(
    kind: type[Settings], layers: Sequence[Layer], unsupported: Iterable[Unsupported] = ()
) -> tuple[Settings, list[str]]:
    """Combine layers into a settings object; return a pair of it and a list of warnings about the layers.

    Args:
        kind: The settings class.
        layers: The layers, from lowest to highest priority.
        unsupported: Keys of RocketMQ that are refused or warned of by name.

    Raises:
        SettingsError: A layer has a wrong value; the message names key, value (unless secret), source and allowed values.
    """
    reading = judge_keys(kind, layers, unsupported)
    for each in reading.judged:
        if each.verdict is KeyVerdict.REFUSED:
            raise each.refusal()
    return kind(**reading.values), warnings_of(reading.judged)


def warnings_of(judged: Iterable[JudgedKey]) -> list[str]:
    """Return the warnings of a start about keys: one for each unknown key, and one for each source and reason."""
    texts = list[str]()
    common: dict[tuple[str, str], list[str]] = {}
    for each in judged:
        if each.verdict is KeyVerdict.UNKNOWN:
            hint = f"; {each.why}" if each.why else ""
            texts.append(f"{each.origin}: unknown setting {as_utf8(each.key)}{hint}")
        elif each.verdict in WARNED:
            pairs = common.setdefault((each.origin, each.why), [])
            pairs.append(f"{each.key}={each.text}")
    for (origin, why), pairs in common.items():
        verb = "has" if len(pairs) == 1 else "have"
        texts.append(f"{origin}: {', '.join(pairs)} {verb} no effect here: {why}")
    return texts


def judge_other(name: str, text: str, known: Iterable[str]) -> tuple[KeyVerdict, str]:
    """Return verdict and reason for a key that is no setting of a program; `known`: its settings, for suggestions."""
    if name.startswith(BYTE_ORDER_MARK):
        return KeyVerdict.UNKNOWN, (
            "the file begins with a byte order mark, which RocketMQ, too, takes for a part of its first line; "
            "store it as UTF-8 without one"
        )
    group, why = WITHOUT_EFFECT.get(name), why_without_effect(name)
    if why is None:
        near = nearest(name, {*known, *ROCKETMQ_KEYS})
        return KeyVerdict.UNKNOWN, f"did you mean {near}?" if near else ""
    if group is None:
        return KeyVerdict.MISPLACED if text.strip() else KeyVerdict.NO_EFFECT, why
    return KeyVerdict.MISSING if group.asks(name, text) else KeyVerdict.NO_EFFECT, why


def _of_own(key: SettingKey, value: Any) -> tuple[KeyVerdict, str]:
    if not key.has_effect and value != key.default:
        return KeyVerdict.MISSING, "it is not implemented yet"
    if key.differs and value != key.default:
        return KeyVerdict.DIFFERS, key.differs
    return KeyVerdict.USED, ""


def _as_rocketmq(key: SettingKey, text: str) -> str:
    """Return a clause on what RocketMQ (MixAll) would do with an unreadable value; "" for numbers and our own keys."""
    if key.name not in ROCKETMQ_KEYS or text.lstrip("+-").isdecimal():
        return ""
    if isinstance(key.default, bool):
        return "; RocketMQ would read it as false"
    return "; RocketMQ would ignore it and use its default"


def shown_value(name: str, text: str, key: SettingKey | None = None) -> str:
    """Return the value of a key for people: on one line, cut if it is long, `HIDDEN` if it is or sounds like a secret."""
    is_secret = key.is_secret if key else any(word in name.lower() for word in _SECRET_WORDS)
    return HIDDEN if is_secret and text else cut(printable(as_utf8(text)), _TEXT_MAX)
