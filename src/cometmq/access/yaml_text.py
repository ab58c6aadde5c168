"""Parser of YAML into nodes that know their lines, for error messages."""

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from cometmq.model.errors import SettingsError

# The compiled reader, if PyYAML has it, which takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlPlace(NamedTuple):
    """A place in a YAML file: its path, and the line number from 1."""

    path: str
    line: int

    def wrong(self, what: str) -> SettingsError:
        """Return, without raising it, a SettingsError that names file and line."""
        return SettingsError(f"{self.path}, line {self.line}: {what}")


class YamlNode:
    """A value in a YAML file.

    Methods that read it raise SettingsError, naming file and line, if it is of another kind.
    """

    __slots__ = ("_node", "_path")

    def __init__(self, node: yaml.Node, path: str) -> None:
        self._node = node
        self._path = path

    @property
    def place(self) -> YamlPlace:
        """Place of the node; keeping it does not keep the node's content in memory."""
        return YamlPlace(self._path, self._node.start_mark.line + 1)

    def wrong(self, what: str) -> SettingsError:
        """Return, without raising it, a SettingsError that names file and line."""
        return self.place.wrong(what)

    def text(self, of: str) -> str:
        """Return the stripped text of a scalar; empty for null."""
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.wrong(f"{of} is not a single value")
        is_none = self._node.tag == "tag:yaml.org,2002:null"
        value: str = self._node.value
        return "" if is_none else value.strip()

    def truth(self, of: str) -> bool:
        """Return whether the node is true; empty means false."""
        said = self.text(of).lower()
        if said not in ("true", "false", ""):
            raise self.wrong(f"{of} must be true or false")
        return said == "true"

    def items(self, of: str) -> "list[YamlNode]":
        """Return the nodes of the items of a list; empty for null."""
        if isinstance(self._node, yaml.SequenceNode):
            return [YamlNode(item, self._path) for item in self._node.value]
        if isinstance(self._node, yaml.ScalarNode) and not self.text(of):
            return []
        raise self.wrong(f"{of} is not a list")

    def pairs(self, of: str) -> "Iterator[tuple[YamlNode, str, YamlNode]]":
        """Yield key node, key and value node of each entry of a mapping; raise SettingsError for a duplicate key."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.wrong(f"{of} is not a YAML mapping")
        seen = set()
        for key, value in self._node.value:
            at = YamlNode(key, self._path)
            name = at.text(f"a key of {of}")
            if name in seen:
                raise at.wrong(f"{name} appears twice in {of}")
            seen.add(name)
            yield at, name, YamlNode(value, self._path)

    def let_go(self) -> None:
        """Release the content piece by piece; freeing a large file at once would block other threads."""
        for below in self._node.value if isinstance(self._node, yaml.MappingNode) else ():
            for node in below:
                values = node.value
                while isinstance(values, list) and values:
                    values.pop()


def read_yaml(content: bytes, path: str) -> YamlNode | None:
    """Parse YAML and return its top node; None if it is empty.

    Raises SettingsError, without content, if it is invalid: with file and line, or only the file if its characters are
    invalid or it is nested too deeply.
    """
    try:
        node = yaml.compose(content, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise SettingsError(f"{path}{where}: this is not valid YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SettingsError(f"{path} is not valid YAML in UTF-8") from None
    return None if node is None else YamlNode(node, path)
