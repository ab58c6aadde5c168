"""The messages of the gRPC protocol are RocketMQ's, and the generated files are up to date."""

import importlib.util
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from rocketmq.grpc_protocol import definition_pb2, service_pb2

import cometmq
from cometmq.proxy.v2 import messaging_pb2 as ours
from tests.support.programs import run_program, said_by_python
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


PACKAGE = Path(cometmq.__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from cometmq.proxy.v2 import messaging_pb2
print(messaging_pb2.__file__, messaging_pb2.Resource(name="orders").name)
"""


def test_messages_are_read_from_a_zip_file(tmp_path):
    place = tmp_path / "cometmq.zip"
    with ZipFile(place, "w") as package:
        for each in (
            "__init__.py",
            "__init__.pyi",
            "model/*.py",
            "proxy/__init__.py",
            "proxy/v2/*",
        ):
            for file in PACKAGE.glob(each):
                package.write(file, file.relative_to(PACKAGE.parent))
    said = said_by_python("-c", PROGRAM, place)
    assert said == f"{place}/cometmq/proxy/v2/messaging_pb2.py orders"


def test_a_program_without_the_port_imports_nothing_of_it():
    program = (
        "import sys, cometmq.broker.__main__, cometmq.embedded, cometmq.cli.up\n"
        "print([name for name in ('google.protobuf', 'jh2', 'cometmq.proxy.local') if name in sys.modules])"
    )
    assert said_by_python("-c", program) == "[]"


def refused(code: str, *arguments: str, **env: str) -> str:
    done = run_program(sys.executable, "-c", code, *arguments, status=2, seconds=None, env=env)
    return done.stderr


# Where it is, jh2 is not needed.
NGHTTP2 = "cometmq.wire.h2._nghttp2"


@pytest.mark.parametrize("package", ["jh2", "google.protobuf"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, tmp_path):
    why = refused(
        f"import sys\nsys.modules[{package!r}] = sys.modules[{NGHTTP2!r}] = None\n"
        "from cometmq.broker.__main__ import main\nsys.exit(main(sys.argv[1:]))",
        "--grpc-server-port", "1", "--listen-port", "0", "--bind-address", "127.0.0.1",
        "--store-path-root-dir", str(tmp_path), "--metrics-exporter-type", "DISABLE",
        "--mapped-file-size-commit-log", "1048576",
        COMETMQ_KERNEL="reference",  # Who has nghttp2 does not need jh2.
    )  # fmt: skip
    assert "pip install 'cometmq[grpc]'" in why
    assert package.partition(".")[0] in why


def test_an_address_that_is_none_is_refused_where_settings_are_printed(tmp_path):
    why = refused(
        "import sys\nfrom cometmq.broker.__main__ import main\nsys.exit(main(sys.argv[1:]))",
        "-p", "--grpc-access-addr", "nowhere", "--store-path-root-dir", str(tmp_path),
    )  # fmt: skip
    assert "grpcAccessAddr=nowhere: an address must be host:port" in why
