"""The HTTP/2 engine of this process: nghttp2 where its module was built, and `jh2` elsewhere."""

from collections.abc import Callable

from cometmq.kernel import KERNEL
from cometmq.wire.h2.engine import H2Engine

try:
    from cometmq.wire.h2._nghttp2 import VERSION as _NGHTTP2
except ImportError:
    _NGHTTP2 = ""

IS_NGHTTP2 = bool(_NGHTTP2) and KERNEL == "fast"
# "nghttp2 1.52.0" or "jh2".
ENGINE = f"nghttp2 {_NGHTTP2}" if IS_NGHTTP2 else "jh2"


def chosen_engine() -> Callable[[], H2Engine]:
    """Return the class of the engine, which takes no arguments; raises ModuleNotFoundError if it needs `jh2`, which is not installed."""
    if IS_NGHTTP2:
        from cometmq.wire.h2.nghttp2_engine import Nghttp2Engine

        return Nghttp2Engine
    from cometmq.wire.h2.jh2_engine import Jh2Engine

    return Jh2Engine
