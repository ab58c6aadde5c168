"""Stored text is cut at the separator that its format names, never at whatever Python calls white space.

`str.split()`, `strip()`, `splitlines()` and `isspace()` know 25 white spaces, among them U+00A0 and U+3000 of
Chinese text. Formats and Java have one separator each.
"""

import ast

import pytest

from tests.arch.sources import SOURCE, modules

# Here every text comes from a file, a frame or a record.
STORED = ("codec", "kernel", "wire", "store", "replication", "model")
UNICODE_ANYWHERE = ("split", "rsplit", "splitlines")
UNICODE = (*UNICODE_ANYWHERE, "strip", "lstrip", "rstrip", "isspace", "isnumeric")
# Texts that are no stored text: what stands in a setting or came from a program, and what is shown.
NO_STORED_TEXT = {
    "model/settings.py": "values of settings",
    "model/judged_keys.py": "values of settings",
    "model/rocketmq_keys.py": "values of settings",
    "model/durations.py": "a setting or an option",
    "model/delay_levels.py": "a setting",
    "model/names.py": "asks only which of two refusals a name gets",
    "model/route.py": "a setting of the nameserver",
    "store/config_file.py": "asks only whether a file is empty",
    "process/freed_memory.py": "a file of the kernel",
    "process/huge_pages.py": "a file of the kernel",
    "cli/output.py": "what is shown",
    "cli/config_files.py": "asks only of what kind a file is",
    "cli/groups.py": "what is shown",
    "cli/brokers.py": "numbers that a broker wrote",
    "client/admin/symptoms.py": "a time that a broker wrote in English",
    "client/topic.py": "what is shown",
    "dashboard/bodies.py": "what is shown",
    "dashboard/pages/users.py": "addresses in a form",
    "dashboard/pages/topics.py": "lines of a form",
    "spark/jobs/error_text.py": "what is shown",
    "spark/jobs/checkpoint.py": "a file of Spark",
    "spark/delta.py": "what is shown",
}


def cuts(text: str, names: tuple[str, ...]) -> list[str]:
    """The calls without an argument of such methods; those of a literal are nobody's stored text."""
    return [
        f"{node.lineno}: .{node.func.attr}()"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and not (node.args or node.keywords)
        and not isinstance(node.func.value, ast.Constant)
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("keys.split()", 1),
        ("keys.split(' ')", 0),
        ("keys.strip().splitlines()", 2),
        ("'a b'.split()", 0),
        ("tag.strip(BLANKS)", 0),
        ("name.isspace()", 1),
    ],
)
def test_a_cut_at_any_white_space_is_seen(text, count):
    assert len(cuts(text, UNICODE)) == count


def test_stored_text_is_not_cut_at_any_white_space():
    wrong = []
    for module in modules():
        names = UNICODE if module.name.startswith(STORED) else UNICODE_ANYWHERE
        if module.name not in NO_STORED_TEXT:
            wrong += [f"{module.name}:{cut}" for cut in cuts(module.text, names)]
    assert not wrong, "name the separator: model/properties.py has those of RocketMQ"


def test_each_exception_is_one():
    for name in NO_STORED_TEXT:
        assert cuts((SOURCE / name).read_text(), UNICODE), f"{name} needs no exception"
