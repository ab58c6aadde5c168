"""What a release is made of belongs together: notes of changes, changelog, tag, Pythons, and the workflows of a public host."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.programs import said_by_python
from tests.wheels import pythons
from tools import release_notes

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
KINDS = {each["directory"] for each in PROJECT["tool"]["towncrier"]["type"]}
NOTES = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


# --- notes and changelog


def test_each_note_is_of_a_known_kind_and_says_something() -> None:
    assert {
        path.name
        for path in NOTES
        if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name)
        or not path.read_text().strip()
    } == set()


def test_the_changelog_of_the_coming_version_has_each_note() -> None:
    build = ("-m", "towncrier", "build", "--draft", "--version", "9.9.9")
    draft = " ".join(said_by_python(*build, cwd=ROOT).split())
    missing = {path.name for path in NOTES if " ".join(path.read_text().split()) not in draft}
    assert missing == set()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sources of version 1.2.3 as they are when they can be released."""
    (tmp_path / "src" / "cometmq").mkdir(parents=True)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").touch()
    (tmp_path / "src" / "cometmq" / "__init__.py").write_text(
        '"""Doc."""\n__version__ = "1.2.3"\n'
    )
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.3 (2026-12-01)\n\n### Added\n\n- Wheels.\n\n## 1.2.2 (2026-11-01)\n\n- Older.\n"
    )
    return tmp_path


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tree: Path) -> None:
    assert release_notes.notes("v1.2.3", tree) == "### Added\n\n- Wheels.\n"


@pytest.mark.parametrize(
    ("tag", "spoiled", "content", "says"),
    [
        ("v1.2.4", None, "", "the tag is v1.2.4 and the package 1.2.3"),
        ("1.2.3", None, "", "the tag is 1.2.3 and the package 1.2.3: .* or tag v1.2.3"),
        ("v1.2.3", "CHANGELOG.md", "# Changelog\n\n## 1.2.30 (2026-12-01)\n", "no section ## 1.2.3"),
        ("v1.2.3", "changes/+wheels.added.md", "New.", r"1 notes .* \+wheels.added.md"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_no_release(
    tree: Path, tag: str, spoiled: str | None, content: str, says: str
) -> None:
    if spoiled:
        (tree / spoiled).write_text(content)
    with pytest.raises(release_notes.NotReleasable, match=says):
        release_notes.notes(tag, tree)


# --- Pythons and workflows


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def test_the_pythons_of_wheels_and_tests_are_those_that_the_package_names() -> None:
    wheels = [f"cp{version.replace('.', '')}-*" for version in pythons.supported()]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == wheels
    least, *later = pythons.supported()
    assert PROJECT["project"]["requires-python"] == f">={least}"
    found = jobs(ROOT / ".github" / "workflows" / "ci.yml")
    assert found["pythons"]["strategy"]["matrix"]["python"] == later
    [setup] = [
        step["with"]
        for step in found["suites"]["steps"]
        if "python-version" in step.get("with", {})
    ]
    assert setup["python-version"] == least


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_takes_only_what_it_was_reviewed_with(path: Path) -> None:
    """Foreign actions by commit, and the right to write only in the two jobs that need it."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    foreign = [
        step["uses"]
        for job in jobs(path).values()
        for step in job.get("steps", ())
        if "uses" in step
    ]
    assert [each for each in foreign if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []
    writing = {
        name: job["permissions"] for name, job in jobs(path).items() if "permissions" in job
    }
    assert writing == (
        {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
        if path.name == "release.yml"
        else {}
    )
    kept = [
        name
        for name, job in jobs(path).items()
        for step in job.get("steps", ())
        if step.get("uses", "").startswith("actions/checkout@")
        and step["with"]["persist-credentials"] is not False
    ]
    assert kept == []


def test_a_workflow_calls_targets_and_tools_that_exist() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"run: make (\w+)", text))
    assert {"test", "wheels", "workflows", "build", "audit"} <= called <= targets
    assert [
        name for name in re.findall(r"\b(?:tools|\.ci)/\S+", text) if not (ROOT / name).exists()
    ] == []
