"""The least versions of libraries that an installation may have: none with a known hole, and what we run is not below them."""

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# The first version without a hole that is known, and the hole.
WITHOUT_HOLES = {
    "starlette": ("1.0.1", "CVE-2026-48710; CVE-2025-62727 before 0.49.1"),
    "orjson": ("3.11.6", "CVE-2025-67221; CVE-2024-27454 before 3.9.15"),
    "h11": ("0.16", "CVE-2025-43859"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "protobuf": ("6.33.5", "CVE-2026-0994; CVE-2025-4565 before 6.31.1"),
    "pyarrow": ("14.0.1", "CVE-2023-47248"),
}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found, requirement
    return found[0].lower().replace("_", "-")


def _requirements() -> list[str]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(each for extra in extras for each in extra)]


FLOORS = [each for each in _requirements() if ">=" in each]


def _floor(requirement: str) -> tuple[int, ...]:
    return _version(requirement.partition(">=")[2].split(";")[0].split(",")[0])


@pytest.mark.parametrize("library", WITHOUT_HOLES)
def test_a_version_with_a_known_hole_could_be_installed(library):
    floors = [_floor(each) for each in FLOORS if _name(each) == library]
    least, hole = WITHOUT_HOLES[library]
    assert floors, f"{library} has no least version"
    assert min(floors) >= _version(least), f"{library}: {hole}"


@pytest.mark.parametrize("requirement", FLOORS)
def test_the_locked_version_is_not_below_its_floor(requirement):
    locked = _locked("requirements.lock")
    name = _name(requirement)
    assert name in locked
    assert _version(locked[name]) >= _floor(requirement)


def _locked(name: str) -> dict[str, str]:
    """Return the version of each package that a lock file pins."""
    return {
        _name(line): line.partition("==")[2]
        for line in (PROJECT / name).read_text().splitlines()
        if "==" in line and not line.startswith("#")
    }


def test_what_a_target_installs_besides_changes_no_other_package_of_the_environment():
    """`make docs`, `make types`, `make build`, `make wheels` and `make audit` install into the environment that `make setup` made."""
    own, docs, release, types = (
        _locked(f"requirements{kind}.lock") for kind in ("", "-docs", "-release", "-types")
    )
    assert docs
    assert release
    assert types
    assert set(own) & (set(docs) | set(release) | set(types)) == set()
    assert set(types) & (set(docs) | set(release)) == set()
    both = set(docs) & set(release)
    assert {name: docs[name] for name in both} == {name: release[name] for name in both}
