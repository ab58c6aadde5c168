"""docs/format/store-directory.md says what the code does."""

import re
from pathlib import Path

from cometmq.codec.record import blank_tail
from cometmq.store.checkpoint import PROGRESS_SIZE, Progress, decode_progress, encode_progress

PAGE = Path(__file__).parents[3] / "docs/format/store-directory.md"


def test_the_example_of_our_checkpoint_is_what_it_says():
    [block] = re.findall(r"```hex\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    content = bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))
    progress = Progress(
        1545, 515, 15, index_file=20261121093000123, index_count=31, log_ms=1795256157132
    )
    assert content == encode_progress(progress)
    assert decode_progress(content) == progress


def test_the_table_of_our_checkpoint_has_its_sizes_and_places():
    section = PAGE.read_text().partition("## checkpoint.cometmq")[2]
    rows = re.findall(r"\| (\w+) \| (\d+) \| (\d+) \|", section)
    place = 0
    for _, size, at in rows:
        assert int(at) == place
        place += int(size)
    assert place == PROGRESS_SIZE
    assert [name for name, _, _ in rows][2:] == list(Progress._fields)


def test_the_end_of_a_log_file_is_as_the_page_says():
    section = PAGE.read_text().partition("## Log files")[2].partition("## Queue files")[0]
    sizes = [int(size) for size in re.findall(r"\| \w+ \| (\d+) \|", section)]
    assert sum(sizes) == len(blank_tail(100)) == 8
    assert blank_tail(100)[4:].hex() == "cbd43194"
    assert "0xCBD43194" in section
