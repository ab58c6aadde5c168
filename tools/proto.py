"""Generates the Python module of the gRPC messages from `src/cometmq/proxy/v2/messaging.proto`.

    python tools/proto.py            # writes messaging_pb2.py and messaging_pb2.pyi; needs grpcio-tools
    python tools/proto.py --check    # fails if one of them differs from what it would write

Not the module that protoc writes: that one works only with the protobuf runtime of its own version or a later one, and it
registers its names in the pool of the process, where the official client of RocketMQ registers the same names.
"""

import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src/cometmq/proxy/v2"
_NAME = "messaging"
_MODULE = '''"""The messages of RocketMQ's gRPC protocol, generated from messaging.proto by tools/proto.py.

They are in a pool of their own, because the official client registers the same names in the pool of the process.
"""

from google.protobuf import descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

POOL = descriptor_pool.DescriptorPool()
for _each in (duration_pb2, timestamp_pb2):
    POOL.AddSerializedFile(_each.DESCRIPTOR.serialized_pb)
DESCRIPTOR = POOL.AddSerializedFile(
{content}
)
for _name, _message in DESCRIPTOR.message_types_by_name.items():
    globals()[_name] = message_factory.GetMessageClass(_message)
for _name, _enum in DESCRIPTOR.enum_types_by_name.items():
    globals()[_name] = EnumTypeWrapper(_enum)
    globals().update({{value.name: value.number for value in _enum.values}})
'''


def generated() -> dict[str, str]:
    """Return the content of the generated files by name; needs grpcio-tools."""
    import grpc_tools
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from grpc_tools import protoc

    known = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "protoc",
            f"-I{FOLDER}",
            f"-I{known}",
            f"--pyi_out={folder}",
            f"--descriptor_set_out={folder}/set",
            f"{_NAME}.proto",
        ]
        if protoc.main(arguments):
            raise SystemExit("protoc failed")
        stubs = Path(folder, f"{_NAME}_pb2.pyi").read_text()
        found = FileDescriptorSet.FromString(Path(folder, "set").read_bytes()).file[0]
    content = found.SerializeToString(deterministic=True)
    lines = [repr(content[at : at + 40]) for at in range(0, len(content), 40)]
    module = _MODULE.format(content="\n".join(f"    {line}" for line in lines))
    return {f"{_NAME}_pb2.py": module, f"{_NAME}_pb2.pyi": stubs}


def main() -> int:
    """Write the files, or with --check compare them; return the exit status."""
    is_check = "--check" in sys.argv
    status = 0
    for name, text in generated().items():
        path = FOLDER / name
        if not is_check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.stderr.write(f"{path} is out of date; run python tools/proto.py\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
