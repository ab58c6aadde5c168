"""Generates what the gRPC messages are made of from `src/cometmq/proxy/v2/messaging.proto`.

    python tools/proto.py            # writes messaging.binpb and messaging_pb2.pyi; needs grpcio-tools
    python tools/proto.py --check    # fails if one of them differs from what it would write

Not the module that protoc writes: that one works only with the protobuf runtime of its own version or a later one, and it
registers its names in the pool of the process, where the official client of RocketMQ registers the same names.
"""

import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src/cometmq/proxy/v2"
_NAME = "messaging"
# What no program here uses: slots, numbers of fields, and the values of enums as attributes of their classes (they are
# names of the module, too).
_UNUSED = re.compile(r"^    (?:__slots__ = .*|\w+: _ClassVar\[.*\])\n", re.MULTILINE)
_EMPTY_CLASS = re.compile(r"^(class .*:)\n(?!    )", re.MULTILINE)


def generated() -> dict[str, bytes]:
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
    stubs = _EMPTY_CLASS.sub(r"\1 ...\n", _UNUSED.sub("", stubs))
    return {
        f"{_NAME}.binpb": found.SerializeToString(deterministic=True),
        f"{_NAME}_pb2.pyi": stubs.encode(),
    }


def main() -> int:
    """Write the files, or with --check compare them; return the exit status."""
    is_check = "--check" in sys.argv
    status = 0
    for name, content in generated().items():
        path = FOLDER / name
        if not is_check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            sys.stderr.write(f"{path} is out of date; run python tools/proto.py\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
