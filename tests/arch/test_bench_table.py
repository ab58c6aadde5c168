"""The table of the bench says of a line that it holds exactly when its median does."""

import pytest

from bench import table


def results(*rounds: tuple[float, float]) -> table.Results:
    """Rounds of (Java's, our) sends a second."""
    return {
        "rounds": [
            {
                "java": {"send 128": {"per_second": theirs}},
                "cometmq": {"send 128": {"per_second": ours}},
            }
            for theirs, ours in rounds
        ]
    }


THROUGHPUT = table.Line("sends", "send 128", "per_second", 2.0)
SECTION = table.Section("sends", [THROUGHPUT])


def test_a_ratio_is_the_median_of_the_rounds_and_not_a_ratio_of_medians():
    assert table.reached(results((100, 100), (10, 40), (50, 150)), THROUGHPUT) == 3.0


@pytest.mark.parametrize(("ours", "verdict"), [(199, "**no**"), (200, "yes")])
def test_a_line_holds_from_its_target_on(ours, verdict):
    last = table.markdown(results((100, ours)), SECTION).splitlines()[-1]
    assert last.endswith(f"| >= 2x | {verdict} |")


def test_of_a_line_without_a_target_nothing_is_said():
    section = table.Section("sends", [table.Line("sends", "send 128", "per_second", None)])
    last = table.markdown(results((100, 199)), section).splitlines()[-1]
    assert last.endswith("| 1.99x | - |  |")


@pytest.mark.parametrize("section", table.SECTIONS.values(), ids=lambda section: section.name)
def test_what_was_not_measured_does_not_hold(section):
    lines = table.markdown({"rounds": []}, section).splitlines()[2:]
    assert len(lines) == len(section.lines)
    assert all(line.endswith("| not measured |") for line in lines)


def test_the_page_has_a_place_for_each_table():
    page = (table.HERE / "README.md").read_text()
    for section in table.SECTIONS.values():
        assert page.count(section.begin) == 1
