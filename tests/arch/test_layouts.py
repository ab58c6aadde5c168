"""The constants of the compiled kernel are those that its layouts say."""

import re
from pathlib import Path

import pytest

from cometmq.kernel import layouts
from cometmq.kernel.layouts import Layout
from tools import sync_layouts

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "src" / "cometmq" / "kernel"
# What compiled code adds to a pointer or a place is a name of a layout; 1 is the byte behind.
BARE_PLACE = re.compile(r"\b(?:at|position|data) \+ (?!1\b)\d+")


def test_the_constants_are_those_of_the_layouts():
    assert sync_layouts.TARGET.read_text() == sync_layouts.make(), "stale: run make sync"


def test_a_field_more_makes_the_constants_stale(monkeypatch):
    monkeypatch.setattr(
        layouts, "INDEX_KEY", Layout(physical_offset="q", seconds="i", key_hash="i")
    )
    made = sync_layouts.make()
    assert "    INDEX_KEY_KEY_HASH_AT = 12\n" in made
    assert made != sync_layouts.TARGET.read_text()


def test_what_is_no_int_of_c_keeps_its_value():
    made = sync_layouts.make()
    assert f"#define COMETMQ_MAGIC_V1 {layouts.MAGIC_V1:#x}u\n" in made
    assert f"#define COMETMQ_GAP_CODE {layouts.GAP_CODE:#x}LL\n" in made


@pytest.mark.parametrize("path", sorted(KERNEL.glob("_*.pyx")), ids=lambda path: path.name)
def test_no_compiled_module_has_sizes_or_places_of_its_own(path):
    text = path.read_text()
    assert not BARE_PLACE.findall(text)
    names = dict(sync_layouts.constants())
    assigned = re.findall(r"^cdef \w+ ([A-Z_0-9]+) = ", text, re.MULTILINE)
    assert not set(assigned) & names.keys()
