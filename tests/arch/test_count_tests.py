"""`tools/count_tests.py` never makes a run look better than it was."""

from pathlib import Path

import pytest

from tools import count_tests


def case(name: str, inside: str = "") -> str:
    return f'<testcase classname="tests.a" name="{name}" time="1">{inside}</testcase>'


def write(file: Path, *cases: str) -> None:
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def report(folder: Path, name: str, *, tests: int, failures: int = 0, skipped: int = 0) -> None:
    inside = ["<failure>wrong</failure>"] * failures + ["<skipped/>"] * skipped
    inside += [""] * (tests - failures - skipped)
    write(folder / f"{name}.xml", *(case(f"test_{n}", each) for n, each in enumerate(inside)))


@pytest.mark.parametrize(
    ("failed_suites", "expected"),
    [
        (0, (14, 0, 2)),  # ten and two tests, and two suites without a report
        (1, (13, 1, 2)),  # one suite failed without a report of a failing test
    ],
)
def test_a_suite_without_a_report_counts_as_one(tmp_path, failed_suites, expected):
    report(tmp_path, "test", tests=12, skipped=2)
    report(tmp_path, "crash", tests=2)
    counts = count_tests.total(tmp_path, failed_suites=failed_suites, suites=4)
    assert counts[:3] == expected


def test_failing_tests_are_not_counted_twice(tmp_path):
    report(tmp_path, "test", tests=12, failures=3)
    assert count_tests.total(tmp_path, failed_suites=1, suites=2) == (10, 3, 0, 0)


def test_the_end_of_a_failed_run_says_what_failed_and_why(tmp_path):
    traceback = "\n".join(["def test_it():"] * 50 + ["E   AssertionError: 3 lost"])
    write(tmp_path / "crash.xml", case("test_it", f"<failure>{traceback}</failure>"))
    first, *rest = count_tests.reasons(tmp_path)
    assert first == "--- crash: tests.a::test_it (failure after 1 s)"
    assert rest[-1] == "E   AssertionError: 3 lost"
    assert len(rest) == count_tests.LINES_OF_A_REASON


def test_only_the_same_test_passes_at_a_second_try(tmp_path):
    failed = "<failure>slow</failure>"
    first = [case("late", failed), case("never", failed), case("skipped", failed), case("well")]
    error = case("internal", "<error>pytest broke off</error>")
    second = [case("late"), case("never", failed), case("skipped", "<skipped/>"), case("other")]
    (tmp_path / "second").mkdir()
    write(tmp_path / "interop.xml", *first, error)
    write(tmp_path / "second/interop.xml", *second)
    assert len(count_tests.failures(tmp_path / "interop.xml")) == 4
    assert count_tests.total(tmp_path, failed_suites=1, suites=1) == (2, 3, 0, 1)
    told = [line for line in count_tests.reasons(tmp_path) if line.startswith("---")]
    assert [line.endswith("passed at the second try)") for line in told] == [True, False, False, False]  # fmt: skip


def test_a_failed_test_with_an_error_at_its_end_is_one_test(tmp_path):
    (tmp_path / "second").mkdir()
    failed, error = case("late", "<failure/>"), case("late", "<error>left open</error>")
    write(tmp_path / "test.xml", failed, error, case("well"))
    assert count_tests.total(tmp_path, failed_suites=1, suites=1) == (1, 1, 0, 0)
    write(tmp_path / "second/test.xml", case("late"))
    assert count_tests.total(tmp_path, failed_suites=0, suites=1) == (2, 0, 0, 1)
