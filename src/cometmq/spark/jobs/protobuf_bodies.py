"""Protobuf bodies, decoded by Google's library: one message type of a descriptor set made by `protoc`.

A field that is not set is null if its presence is tracked, and otherwise its default. uint32 becomes BIGINT and uint64
DECIMAL(20), so that no value changes; an enum its name, or its number if it has no name; `google.protobuf.Timestamp` a
TIMESTAMP. Unknown fields are ignored, as by every Protobuf reader. Recursive messages are not supported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.spark.jobs.body_forms import Reader

_TIMESTAMP = "google.protobuf.Timestamp"
_TYPES: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}

Taken = Callable[[Any], Any]


@dataclass(frozen=True)
class ProtobufBodies:
    """Decoder of Protobuf bodies: the type `message` of a serialized FileDescriptorSet, and its columns."""

    descriptors: bytes
    message: str
    columns: StructType
    name: str = "protobuf"

    @classmethod
    def of(cls, file: str, message: str) -> "ProtobufBodies":
        """Create a decoder, with its columns, from a file made by `protoc --include_imports --descriptor_set_out=FILE`.

        Raises:
            SettingsError: No message is named, the file is no complete descriptor set with it, or the message contains itself.
        """
        if not message:
            raise SettingsError("--format protobuf needs --message, the name of the message")
        try:
            content = Path(file).read_bytes()
            found = _found(content, message)
        except (OSError, DecodeError) as error:
            raise SettingsError(
                f"--schema {in_quotes(file)} is not a descriptor set ({error}): create one with "
                "protoc --include_imports --descriptor_set_out=FILE"
            ) from error
        return cls(content, message, _columns(found, ()))

    def reader(self) -> Reader:
        """Return a function that decodes a Protobuf body to a dict of column values, or raises an error."""
        found = _found(self.descriptors, self.message)
        parse, taken = GetMessageClass(found).FromString, _taken_of(found)
        return lambda body: taken(parse(body))


def _found(content: bytes, message: str) -> Descriptor:
    """Return a message's descriptor from a descriptor set; SettingsError if it or a file is missing, DecodeError for damage."""
    pool, names = DescriptorPool(), []
    files = FileDescriptorSet.FromString(content).file
    try:
        for each in files:
            pool.Add(each)
            names += [f"{each.package}.{one.name}".lstrip(".") for one in each.message_type]
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise SettingsError(
            f"--message {in_quotes(message)} is not in the descriptor set, which has {', '.join(names) or 'no message'}"
        ) from None
    except TypeError as error:
        raise SettingsError(
            f"the descriptor set is incomplete ({error}): create it with protoc --include_imports"
        ) from error


# --- columns


def _columns(message: Descriptor, inside: tuple[str, ...]) -> StructType:
    if message.full_name in inside:
        raise SettingsError(
            f"message {message.full_name} contains itself: a recursive message cannot become columns"
        )
    inside = (*inside, message.full_name)
    return StructType(
        [StructField(each.name, _column(each, inside)) for each in message.fields]
    )


def _column(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if (parts := _map_parts(field)) is not None:
        return MapType(_single(parts["key"], inside), _single(parts["value"], inside))
    one = _single(field, inside)
    return ArrayType(one) if field.is_repeated else one


def _single(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return BinaryType()
    if field.message_type is None:
        return _TYPES[field.cpp_type]
    if field.message_type.full_name == _TIMESTAMP:
        return TimestampType()
    return _columns(field.message_type, inside)


def _map_parts(field: FieldDescriptor) -> Mapping[str, FieldDescriptor] | None:
    entry = field.message_type
    return entry.fields_by_name if entry is not None and entry.GetOptions().map_entry else None


# --- values


def _taken_of(message: Descriptor) -> Taken:
    """Return a function that converts a message to a dict of values for Arrow."""
    fields = [(each.name, each.has_presence, _field_taken(each)) for each in message.fields]

    def taken(one: Any) -> dict[str, Any]:
        return {
            name: None if has_presence and not one.HasField(name) else take(getattr(one, name))
            for name, has_presence, take in fields
        }

    return taken


def _field_taken(field: FieldDescriptor) -> Taken:
    if (parts := _map_parts(field)) is not None:
        key, value = _single_taken(parts["key"]), _single_taken(parts["value"])
        return lambda pairs: [(key(each), value(pairs[each])) for each in pairs]
    one = _single_taken(field)
    return (lambda many: [one(each) for each in many]) if field.is_repeated else one


def _single_taken(field: FieldDescriptor) -> Taken:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return lambda time: time.ToDatetime(tzinfo=UTC)
        return _taken_of(field.message_type)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return Decimal if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else _same


def _same(value: Any) -> Any:
    return value
