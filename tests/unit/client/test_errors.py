"""`cometmq.errors` has every error that can be caught, and the page of the client explains each."""

import inspect
import subprocess
import sys
from pathlib import Path

import cometmq
import cometmq.client
import cometmq.errors
from cometmq.model import errors as tree

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"


def errors_of_the_tree() -> dict[str, type]:
    """All but those between brokers, which no caller of ours meets."""
    return {
        name: value
        for name, value in vars(tree).items()
        if inspect.isclass(value)
        and issubclass(value, tree.CometError)
        and not issubclass(value, tree.LinkError)
    }


def test_every_error_of_the_tree_is_exported_as_it_is():
    there = {name: getattr(cometmq.errors, name) for name in cometmq.errors.__all__}
    assert there == errors_of_the_tree()


def test_every_error_is_explained_on_the_page():
    page = PAGE.read_text()
    assert [name for name in errors_of_the_tree() if f"`{name}`" not in page] == []


def test_the_package_gives_the_client_when_it_is_asked():
    for name in cometmq.client.__all__:
        assert getattr(cometmq, name) is getattr(cometmq.client, name)
    assert set(cometmq.client.__all__) <= set(dir(cometmq))
    assert not hasattr(cometmq, "Consumer")
    code = "import sys, cometmq; print('cometmq.client' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
