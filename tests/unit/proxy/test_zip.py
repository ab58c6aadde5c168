"""The messages of gRPC where the package is in a zip file, as docs/spark/cluster.md brings it to a cluster."""

from pathlib import Path
from zipfile import ZipFile

import cometmq
from tests.support.programs import said_by_python

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
