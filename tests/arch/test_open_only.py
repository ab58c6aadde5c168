"""The list of attacks that do not run at servers with access control can be believed."""

import ast

import pytest

from tests.arch.test_compatibility import ROOT
from tests.attacks.open_only import NO_SERVER, OF_ITS_OWN, OPEN_ONLY

FOLDER = ROOT / "tests" / "attacks"
# What a case needs to reach a server of ours that the folder's fixtures could guard.
SERVERS = {"broker", "nameserver", "standing"}
OF_USERS = {"auth_settings", "guarded_cluster", "signed"}


def names_in(source: str) -> set[str]:
    """The names of functions that a source calls, and of fixtures that its tests ask for."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found.add(ast.unparse(node.func).rpartition(".")[2])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {each.arg for each in node.args.args}
    return found


def source_of(key: str) -> str:
    """The source of a file, or of one test of it."""
    file, _, test = key.partition("::")
    text = (FOLDER / file).read_text()
    if not test:
        return text
    [node] = [n for n in ast.parse(text).body if getattr(n, "name", "") == test]
    return ast.get_source_segment(text, node) or ""


@pytest.mark.parametrize("key", OPEN_ONLY)
def test_the_list_of_open_cases_is_true(key: str) -> None:
    assert (FOLDER / key.partition("::")[0]).is_file()
    names = names_in(source_of(key))
    if OPEN_ONLY[key] == NO_SERVER:
        assert not names & SERVERS, (
            "it starts a server of ours, which could have access control"
        )
    if OPEN_ONLY[key] == OF_ITS_OWN:
        file = (FOLDER / key.partition("::")[0]).read_text()
        assert names_in(file) & OF_USERS, "its servers have no access control of their own"
