"""Which HTTP/2 engine a program uses."""

import pytest

from cometmq.kernel import KERNEL
from cometmq.wire.h2.choice import ENGINE, IS_NGHTTP2, chosen_engine
from tests.support.h2_engines import BUILDS, ENGINES, HAS_HEADERS
from tests.support.programs import said_by_python

ASKED = "from cometmq.wire.h2.choice import ENGINE, chosen_engine; print(ENGINE, chosen_engine().__name__)"


@pytest.mark.skipif(
    not HAS_HEADERS or KERNEL != "fast",
    reason="nghttp2's headers are not installed, or nothing compiled is asked for",
)
def test_nghttp2_is_used_where_its_headers_are():
    assert IS_NGHTTP2, BUILDS


def test_the_engine_that_is_used_is_told():
    assert ENGINE.split()[0] == ("nghttp2" if IS_NGHTTP2 else "jh2")
    assert chosen_engine() is ENGINES[ENGINE.split()[0]]


def test_who_asks_for_nothing_compiled_gets_jh2():
    said = said_by_python("-c", ASKED, COMETMQ_KERNEL="reference")
    assert said.split() == ["jh2", "Jh2Engine"]
