"""The HTTP/2 engines that are there: that on nghttp2 only where its module was built."""

import os
from collections.abc import Callable
from pathlib import Path

from cometmq.wire.h2.engine import H2Engine
from cometmq.wire.h2.jh2_engine import Jh2Engine

ENGINES: dict[str, Callable[[], H2Engine]] = {"jh2": Jh2Engine}
BUILDS = "`rm .venv/.installed` and `make setup` build its module"
HAS_HEADERS = Path("/usr/include/nghttp2/nghttp2.h").exists()
# Tests that compare both fail without nghttp2 where its module can be built, and where somebody asks for both.
ARE_BOTH_NEEDED = HAS_HEADERS or "COMETMQ_BOTH_ENGINES" in os.environ
try:
    from cometmq.wire.h2.nghttp2_engine import Nghttp2Engine
except ModuleNotFoundError as error:
    if error.name != "cometmq.wire.h2._nghttp2":
        raise
else:
    ENGINES["nghttp2"] = Nghttp2Engine
