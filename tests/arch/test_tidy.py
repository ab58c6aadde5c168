"""`tools/tidy.py` finds what it promises to find, and nothing in code that keeps the rules."""

from pathlib import Path

import pytest

from tools import tidy

GOOD = '"""A module.\n"""\n\n\ndef read() -> None:\n    """Read."""\n'


def complaints(tmp_path: Path, text: str, name: str = "src/cometmq/store/log.py") -> list[str]:
    """What tidy says about one file in an otherwise clean project."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return tidy.check(tmp_path, [Path(name)])


def test_a_file_that_keeps_the_rules_is_not_named(tmp_path):
    assert complaints(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            GOOD + "    x = 1\n" * 50,
            "read has 51 lines; at most 40",
        ),
        ("x = 1\n", "no module docstring"),
        (GOOD.replace("def read", "def read_helper"), "'helper' names nothing"),
        (GOOD + "\n\nclass TopicManager:\n    pass\n", "'manager' names nothing"),
        (GOOD + "\n\nclass TopicInfo:\n    pass\n", "'info' names nothing"),
        (GOOD + "# see /ro" + "ot/notes\n", "a path of one machine"),
        (GOOD + "# TO" + "DO later\n", "an open end"),
        (GOOD.replace("Read.", "What it reads."), "begins with 'What'"),
        (GOOD.replace("Read.", "Read it."), "begins with 'Read it'"),
        (GOOD.replace("Read.", "Whether it is read."), "begins with 'Whether it'"),
        (GOOD.replace("Read.", "The same of a file."), "begins with 'The same'"),
        (GOOD.replace("Read.", "All of them."), "begins with 'All of them'"),
        (GOOD.replace("Read.", "Read\n    a file."), "no whole sentence: 'Read'"),
        (GOOD + "# Why: docs/" + "design/0999-gone.md\n", "no decision 0999"),
    ],
)
def test_each_rule_names_its_breach(tmp_path, text, complaint):
    (line,) = complaints(tmp_path, text)
    assert complaint in line
    assert line.startswith("src/cometmq/store/log.py:")


def test_a_long_docstring_does_not_make_a_function_long(tmp_path):
    text = GOOD.replace('"""Read."""', '"""Read.\n\n' + "    A line.\n" * 60 + '    """')
    assert complaints(tmp_path, text) == []


def test_a_module_name_is_checked_too(tmp_path):
    (line,) = complaints(tmp_path, GOOD, name="src/cometmq/store/utils.py")
    assert "'utils' names nothing" in line


@pytest.mark.parametrize(("name", "count"), [("_log.pyx", 0), ("_reader.pyx", 1)])
def test_a_class_may_have_the_name_of_its_compiled_twin(tmp_path, name, count):
    assert complaints(tmp_path, GOOD + "\n\nclass Log:\n    pass\n") == []
    compiled = tmp_path / "src/cometmq/store" / name
    compiled.write_text('"""Compiled."""\n\n\ncdef class Log:\n    pass\n')
    assert len(tidy.check(tmp_path, [Path("src/cometmq/store/log.py")])) == count


@pytest.mark.parametrize("room", ["net", "client/producer", "spark/sink"])
def test_two_classes_of_one_name_are_named_wherever_they_stand(tmp_path, room):
    other = tmp_path / "src/cometmq" / room / "log.py"
    other.parent.mkdir(parents=True)
    other.write_text('"""Logs."""\n\n\nclass _Log:\n    pass\n')
    (line,) = complaints(tmp_path, GOOD + "\n\nclass Log:\n    pass\n")
    assert f"class Log: the name stands in src/cometmq/{room}/log.py, too" in line


def test_a_class_of_a_program_within_a_string_has_a_name_of_its_own(tmp_path):
    other = tmp_path / "src/cometmq/spark/program.py"
    other.parent.mkdir(parents=True)
    other.write_text('"""Programs."""\n\nTEXT = """\nclass Log:\n    pass\n"""\n')
    assert complaints(tmp_path, GOOD + "\n\nclass Log:\n    pass\n") == []


COMPILED = (
    "# cython: language_level=3\n"
    '"""A kernel."""\n\n\ncdef int count(\n    bytes text, Py_ssize_t size\n) except -1:\n'
    '    """How many,\n\n    of what.\n    """\n    cdef int found = 0\n    return found\n'
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (COMPILED + "    found += 1\n" * 36, "count has 40 lines; at most 40"),
        (COMPILED + "    cdef int more\n" * 60, ""),
        (COMPILED + "    found += 1\n" * 37, "count has 41 lines; at most 40"),
        (COMPILED.replace('"""A kernel."""', ""), "no module docstring"),
        (COMPILED.replace("count(", "count_helper("), "'helper' names nothing"),
        (COMPILED + "# TO" + "DO later\n", "an open end"),
    ],
)
def test_a_compiled_file_is_read_too(tmp_path, text, complaint):
    said = complaints(tmp_path, text, name="src/cometmq/kernel/_count.pyx")
    if not complaint or "40 lines" in complaint:
        assert said == []
    else:
        (line,) = said
        assert complaint in line


def test_two_compiled_classes_of_one_name_are_named(tmp_path):
    text, name = COMPILED + "\n\ncdef class Count:\n    pass\n", "src/cometmq/kernel/_log.pyx"
    assert complaints(tmp_path, text, name=name) == []
    (tmp_path / "src/cometmq/kernel/_count.pyx").write_text(text)
    (line,) = tidy.check(tmp_path, [Path(name)])
    assert "class Count: the name stands in src/cometmq/kernel/_count.pyx, too" in line


def test_an_empty_package_file_needs_no_docstring(tmp_path):
    assert complaints(tmp_path, "", name="src/cometmq/store/__init__.py") == []


def test_words_of_a_name_are_found_in_every_spelling():
    assert tidy.words("HTTPInfoTable_of_topics") == ["http", "info", "table", "of", "topics"]
