"""Orders of a shop as Avro and as Protobuf bodies, with the schemas that describe them."""

from io import BytesIO
from typing import Any

import fastavro
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "n", "type": "int"}, {"name": "w", "type": ["double", "float"]}],
}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": "Kind"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "int", "logicalType": "of-our-own"}},
        {"name": "price", "type": _PRICE},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 4}},
        {"name": "lines", "type": {"type": "array", "items": _LINE}},
        {"name": "more", "type": {"type": "map", "values": ["null", "bytes"]}},
        {"name": "sum", "type": ["int", "null", "long"]},
    ],
}


def avro_body(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """A record without a file's header."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def order_descriptors(*, with_imports: bool = True) -> bytes:
    """What `protoc --descriptor_set_out` makes of the shop's file, with or without `--include_imports`."""
    imported = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    files = [imported, _shop()] if with_imports else [_shop()]
    return FileDescriptorSet(file=files).SerializeToString()


def protobuf_class(message: str = "shop.Order") -> Any:
    """The class of a message of the shop."""
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(order_descriptors()).file:
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(message))


def _shop() -> FileDescriptorProto:
    shop = FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    kind = shop.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    _field(shop.message_type.add(name="Line"), "n", "INT32")
    tree = shop.message_type.add(name="Tree")
    _field(tree, "branches", "MESSAGE", "shop.Tree", is_repeated=True)
    order = shop.message_type.add(name="Order")
    _field(order, "id", "SINT64")
    _field(order, "small", "UINT32")
    _field(order, "huge", "FIXED64")
    _field(order, "name", "STRING")
    order.oneof_decl.add(name="_note")
    note = _field(order, "note", "STRING")
    note.proto3_optional, note.oneof_index = True, 0
    _field(order, "kind", "ENUM", "shop.Kind")
    _field(order, "at", "MESSAGE", "google.protobuf.Timestamp")
    _field(order, "body", "BYTES")
    _field(order, "lines", "MESSAGE", "shop.Line", is_repeated=True)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _field(entry, "key", "STRING")
    _field(entry, "value", "INT64")
    _field(order, "counts", "MESSAGE", "shop.Order.CountsEntry", is_repeated=True)
    return shop


def _field(
    message: DescriptorProto,
    name: str,
    kind: str,
    type_name: str = "",
    *,
    is_repeated: bool = False,
) -> FieldDescriptorProto:
    label = "LABEL_REPEATED" if is_repeated else "LABEL_OPTIONAL"
    added: FieldDescriptorProto = message.field.add(
        name=name,
        number=len(message.field) + 1,
        type=FieldDescriptorProto.Type.Value(f"TYPE_{kind}"),
        label=FieldDescriptorProto.Label.Value(label),
        type_name=f".{type_name}" if type_name else None,
    )
    return added
