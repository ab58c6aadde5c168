"""Messages of gRPC's standard services, health and reflection, described as `protoc` would describe them.

They live in a pool of their own: a user's program that loads `grpcio-health-checking` or `grpcio-reflection` beside an
embedded broker describes the same names in the default pool, and no pool takes a name twice.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# Fields of each message: type, name and number, with * if repeated, or | if part of the message's only `oneof`.
_HEALTH = {
    "HealthCheckRequest": "string service 1",
    "HealthCheckResponse": "ServingStatus status 1",
}
_REFLECTION = {
    "ServerReflectionRequest": "string host 1, string file_by_filename 3|, string file_containing_symbol 4|, "
    "ExtensionRequest file_containing_extension 5|, string all_extension_numbers_of_type 6|, string list_services 7|",
    "ExtensionRequest": "string containing_type 1, int32 extension_number 2",
    "ServerReflectionResponse": "string valid_host 1, ServerReflectionRequest original_request 2, "
    "FileDescriptorResponse file_descriptor_response 4|, ListServiceResponse list_services_response 6|, "
    "ExtensionNumberResponse all_extension_numbers_response 5|, ErrorResponse error_response 7|",
    "FileDescriptorResponse": "bytes file_descriptor_proto 1*",
    "ExtensionNumberResponse": "string base_type_name 1, int32 extension_number 2*",
    "ListServiceResponse": "ServiceResponse service 1*",
    "ServiceResponse": "string name 1",
    "ErrorResponse": "int32 error_code 1, string error_message 2",
}
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_TYPES = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
}


def _add_field(message: DescriptorProto, package: str, words: str) -> None:
    kind, name, number = words.strip().split(" ")
    field = message.field.add(name=name, number=int(number.rstrip("*|")))
    field.label = (
        FieldDescriptorProto.LABEL_REPEATED
        if number.endswith("*")
        else FieldDescriptorProto.LABEL_OPTIONAL
    )
    if number.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="message")
        field.oneof_index = 0
    if kind == "ServingStatus":
        field.type = FieldDescriptorProto.TYPE_ENUM
        field.type_name = f".{package}.{message.name}.{kind}"
    elif kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


def _described(package: str, service: str, messages: dict[str, str]) -> FileDescriptorProto:
    file = FileDescriptorProto(
        name=f"{package.replace('.', '/')}/{service.lower()}.proto",
        package=package,
        syntax="proto3",
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for words in fields.split(","):
            _add_field(message, package, words)
    return file


def _health() -> FileDescriptorProto:
    file = _described("grpc.health.v1", "Health", _HEALTH)
    statuses = file.message_type[1].enum_type.add(name="ServingStatus")
    for number, name in enumerate(_STATUSES):
        statuses.value.add(name=name, number=number)
    asked, answer = ".grpc.health.v1.HealthCheckRequest", ".grpc.health.v1.HealthCheckResponse"
    service = file.service.add(name="Health")
    service.method.add(name="Check", input_type=asked, output_type=answer)
    service.method.add(
        name="Watch", input_type=asked, output_type=answer, server_streaming=True
    )
    return file


def _reflection(version: str) -> FileDescriptorProto:
    package = f"grpc.reflection.{version}"
    file = _described(package, "Reflection", _REFLECTION)
    service = file.service.add(name="ServerReflection")
    service.method.add(
        name="ServerReflectionInfo", client_streaming=True, server_streaming=True,
        input_type=f".{package}.ServerReflectionRequest", output_type=f".{package}.ServerReflectionResponse",
    )  # fmt: skip
    return file


# Descriptions of the standard services, encoded. Older tools ask for v1alpha of reflection, which has the same messages.
STANDARD_FILES = [
    each.SerializeToString() for each in (_health(), _reflection("v1"), _reflection("v1alpha"))
]
_pool = DescriptorPool()
for _file in STANDARD_FILES:
    _pool.AddSerializedFile(_file)


def _class_of(name: str) -> Any:
    return GetMessageClass(_pool.FindMessageTypeByName(name))


HealthCheckRequest = _class_of("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _class_of("grpc.health.v1.HealthCheckResponse")
ReflectionRequest = _class_of("grpc.reflection.v1.ServerReflectionRequest")
ReflectionResponse = _class_of("grpc.reflection.v1.ServerReflectionResponse")
