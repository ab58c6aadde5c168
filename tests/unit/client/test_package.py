"""`cometmq.client` gives each of its names when it is asked for it, and imports no more than that takes."""

import ast
import inspect
import subprocess
import sys

import cometmq.client


def typed_names() -> dict[str, str]:
    """Where a type checker finds each name."""
    tree = ast.parse(inspect.getsource(cometmq.client))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_what_is_promised_is_what_a_type_checker_sees_and_what_is_given():
    assert sorted(typed_names()) == sorted(cometmq.client.__all__)
    for name, module in typed_names().items():
        assert getattr(cometmq.client, name) is vars(sys.modules[module])[name]
    assert set(cometmq.client.__all__) <= set(dir(cometmq.client))


def test_a_name_that_there_is_not_is_an_attribute_error():
    assert not hasattr(cometmq.client, "Consumer")


def test_a_part_does_not_bring_the_rest():
    code = "import sys, cometmq.client.results; print('cometmq.client.producer' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
