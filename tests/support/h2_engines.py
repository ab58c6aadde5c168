"""The HTTP/2 engines that are there: that on nghttp2 only where its module was built."""

from collections.abc import Callable

from cometmq.wire.h2.engine import H2Engine
from cometmq.wire.h2.jh2_engine import Jh2Engine

ENGINES: dict[str, Callable[[], H2Engine]] = {"jh2": Jh2Engine}
try:
    from cometmq.wire.h2.nghttp2_engine import Nghttp2Engine

    ENGINES["nghttp2"] = Nghttp2Engine
except ImportError:
    pass
