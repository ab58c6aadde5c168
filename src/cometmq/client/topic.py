"""Typed topics: send and receive values of one type instead of bytes, checked by mypy.

    ORDERS = Topic("orders", PydanticCodec(Order))
    producer.send(ORDERS.message(Order(id="o-1", cents=500), keys="o-1"))

    def handle(order: Received[Order]) -> None:
        book(order.value, order.message.keys)

    PushConsumer(group="billing", listener=ORDERS.listener(handle), subscriptions=[ORDERS.name])

A codec converts values to bytes and back; any object with `encode` and `decode` works.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, cast

import orjson

from cometmq.client.consumer.listeners import BatchListener, DeadLetter, Listener, Said
from cometmq.client.user_calls import is_async_function
from cometmq.model.errors import BodyError, MessageError, SettingsError
from cometmq.model.message import Message, StoredMessage, message_name
from cometmq.model.text import as_given, in_quotes

Value = TypeVar("Value")


class BodyCodec(Protocol[Value]):
    """Interface of a codec for the values of a topic; both methods may raise any `Exception`."""

    def encode(self, value: Value) -> bytes:
        """Encode a value as the body of a message."""
        ...

    def decode(self, body: bytes) -> Value:
        """Decode the body of a message to a value."""
        ...


class JsonCodec:
    """A codec for plain JSON (dicts, lists, strings, numbers); also encodes dataclasses and datetimes."""

    def encode(self, value: Any) -> bytes:
        """Encode a value as the JSON body of a message; raises TypeError if it cannot be encoded."""
        return orjson.dumps(value)

    def decode(self, body: bytes) -> Any:
        """Decode a JSON body to a dict, list, str, number, bool or None; raises ValueError if it is no valid JSON."""
        return orjson.loads(body)


class PydanticCodec(Generic[Value]):
    """A codec for a pydantic model as JSON, or for any type that `pydantic.TypeAdapter` accepts.

    Raises SettingsError if pydantic is not installed or does not accept `kind`, the type of the topic's values.
    """

    def __init__(self, kind: type[Value]) -> None:
        self._adapter = _made(_imported("pydantic").TypeAdapter, kind, "PydanticCodec")

    def encode(self, value: Value) -> bytes:
        """Encode a value of the type as the JSON body of a message; raises pydantic's errors if it cannot be encoded."""
        return cast(bytes, self._adapter.dump_json(value, warnings="error"))

    def decode(self, body: bytes) -> Value:
        """Decode a JSON body to a value of the type; raises pydantic's ValidationError if it does not fit."""
        return cast(Value, self._adapter.validate_json(body))


class MsgspecCodec(Generic[Value]):
    """A codec for a msgspec Struct as JSON or MessagePack, or for any type that msgspec accepts.

    Args:
        kind: Type of the topic's values.
        form: "json" or "msgpack".

    Raises:
        SettingsError: msgspec is not installed or does not accept `kind`, or `form` is another text.
    """

    def __init__(self, kind: type[Value], *, form: str = "json") -> None:
        if form not in ("json", "msgpack"):
            raise SettingsError(f"form is {as_given(form)}; it must be 'json' or 'msgpack'")
        module = getattr(_imported("msgspec"), form)
        self._encoder = module.Encoder()
        self._decoder = _made(module.Decoder, kind, "MsgspecCodec")

    def encode(self, value: Value) -> bytes:
        """Encode a value of the type as the JSON or MessagePack body of a message."""
        return cast(bytes, self._encoder.encode(value))

    def decode(self, body: bytes) -> Value:
        """Decode a JSON or MessagePack body to a value of the type; raises msgspec's errors if it does not fit."""
        return cast(Value, self._decoder.decode(body))


@dataclass(frozen=True, slots=True)
class Received(Generic[Value]):
    """A received message of a typed topic with its decoded value.

    Attributes:
        value: The decoded body.
        message: The message, with tag, keys, properties, queue and offset.
    """

    value: Value
    message: StoredMessage


class Topic(Generic[Value]):
    """The name of a topic with the `codec` of its bodies, values of one type; creates nothing on the brokers."""

    def __init__(self, name: str, codec: BodyCodec[Value]) -> None:
        self.name = name
        self._codec = codec

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {type(self._codec).__name__})"

    def message(
        self,
        value: Value,
        *,
        tag: str | None = None,
        keys: tuple[str, ...] | str = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        deliver: timedelta | datetime | None = None,
    ) -> Message:
        """Make a message that contains a value, to pass to a producer; the other arguments are as in `Message`.

        Raises MessageError if the codec cannot encode the value, or the topic's name or another argument is invalid.
        """
        try:
            body = self._codec.encode(value)
        except Exception as error:
            raise MessageError(
                f"{as_given(value)} cannot be a body of topic {in_quotes(self.name)}: {_reason(error)}"
            ) from error
        return Message(
            self.name,
            body,
            tag,
            keys,
            properties or {},
            delay_level=delay_level,
            deliver=deliver,
        )

    def received(self, message: StoredMessage) -> Received[Value]:
        """Return a message with its decoded body; raise BodyError if the codec cannot decode it."""
        try:
            value = self._codec.decode(message.body)
        except Exception as error:
            raise BodyError(
                f"the body of {message_name(message)} cannot be decoded by the {type(self._codec).__name__} of topic "
                f"{in_quotes(self.name)}: {_reason(error)}; its producer sent another format"
            ) from error
        return Received(value, message)

    def listener(
        self, function: Callable[[Received[Value]], Said | Awaitable[Said]]
    ) -> Listener:
        """Return a push consumer's `listener` that calls the function with typed messages.

        A message that cannot be decoded becomes a dead letter of the group, as soon as a broker accepts it as one (with
        broadcasting, it is dropped); a warning is logged.
        """
        if not is_async_function(function):
            return lambda message: function(self.received(message))

        async def call(message: StoredMessage) -> Said:
            return await cast("Awaitable[Said]", function(self.received(message)))

        return call

    def batch_listener(
        self, function: Callable[[list[Received[Value]]], Said | Awaitable[Said]]
    ) -> BatchListener:
        """Return a push consumer's `batch_listener` that calls the function with a list of typed messages.

        If messages of a batch cannot be decoded, the function is not called, and a warning is logged: these messages become
        dead letters as soon as a broker accepts them, and the others count as refused (broadcasting: all are dropped).
        """
        if not is_async_function(function):
            return lambda messages: function(self._all_received(messages))

        async def call(messages: list[StoredMessage]) -> Said:
            return await cast("Awaitable[Said]", function(self._all_received(messages)))

        return call

    def _all_received(self, messages: list[StoredMessage]) -> list[Received[Value]]:
        values, dead, reason = [], [], ""
        for message in messages:
            try:
                values.append(self.received(message))
            except BodyError as error:
                dead.append(message)
                reason = reason or str(error)
        if dead:
            raise DeadLetter(reason, dead)
        return values


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.500}"


def _made(make: Callable[[Any], Any], kind: object, codec: str) -> Any:
    try:
        return make(kind)
    except Exception as error:
        library = make.__module__.partition(".")[0]
        raise SettingsError(
            f"{codec}: kind is {as_given(kind, 80)}; it must be a model, or a type that {library}'s "
            f"{make.__name__} takes: {error!s:.200}"
        ) from error


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError(f"{name} is not installed; run pip install {name}") from error
