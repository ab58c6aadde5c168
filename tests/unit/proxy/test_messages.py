"""The messages of the gRPC protocol are RocketMQ's, and the generated files are up to date."""

import importlib.util

import pytest
from rocketmq.grpc_protocol import definition_pb2, service_pb2

from cometmq.proxy.v2 import messaging_pb2 as ours
from tools import proto

_THEIRS = (definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR)


def _fields(message):
    return {
        each.name: (
            each.number, each.type, each.is_repeated, each.has_presence,
            each.message_type and each.message_type.full_name,
            each.enum_type and each.enum_type.full_name,
            each.containing_oneof and each.containing_oneof.name,
        )
        for each in message.fields
    }  # fmt: skip


def _messages(file):
    found = {}
    waiting = list(file.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        found[message.full_name] = _fields(message)
        waiting += message.nested_types
    return found


def _enums(file):
    nested = [each for m in file.message_types_by_name.values() for each in m.enum_types]
    return {
        each.full_name: {value.name: value.number for value in each.values}
        for each in [*file.enum_types_by_name.values(), *nested]
    }


def _methods(file):
    return {
        method.full_name: (
            method.input_type.full_name, method.output_type.full_name,
            method.client_streaming, method.server_streaming,
        )
        for service in file.services_by_name.values() for method in service.methods
    }  # fmt: skip


@pytest.mark.parametrize("part", [_messages, _enums, _methods])
def test_messages_are_those_of_the_official_client(part):
    theirs: dict[str, object] = {}
    for file in _THEIRS:
        theirs |= part(file)
    found = part(ours.DESCRIPTOR)
    assert found == theirs
    assert found


def test_bytes_are_read_by_the_official_client():
    message = ours.Message(topic={"name": "t"}, body=b"x", user_properties={"a": "b"})
    message.system_properties.tag = "blue"
    read = definition_pb2.Message.FromString(message.SerializeToString())
    assert (read.topic.name, read.body, dict(read.user_properties)) == ("t", b"x", {"a": "b"})
    assert read.system_properties.tag == "blue"
    assert not read.system_properties.HasField("message_group")


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_generated_files_are_up_to_date():
    for name, content in proto.generated().items():
        assert (proto.FOLDER / name).read_bytes() == content, (
            f"run python tools/proto.py: {name}"
        )
