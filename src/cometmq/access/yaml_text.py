"""YAML as nodes that know their lines: whoever reads a file can say where it is wrong."""

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from cometmq.model.errors import SettingsError

# The compiled reader, where PyYAML has it: it takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlPlace(NamedTuple):
    """A place in a YAML file.

    Attributes:
        path: of the file.
        line: counted from 1.
    """

    path: str
    line: int

    def wrong(self, what: str) -> SettingsError:
        """The error that names file and line."""
        return SettingsError(f"{self.path}, line {self.line}: {what}")


class YamlNode:
    """A value of a YAML file."""

    __slots__ = ("_node", "_path")

    def __init__(self, node: yaml.Node, path: str) -> None:
        self._node = node
        self._path = path

    @property
    def place(self) -> YamlPlace:
        """The place of the node; keeping it keeps nothing of the node's content."""
        return YamlPlace(self._path, self._node.start_mark.line + 1)

    def wrong(self, what: str) -> SettingsError:
        """The error that names file and line."""
        return self.place.wrong(what)

    def text(self, of: str) -> str:
        """The text of a plain value, blanks around it taken away; empty for none."""
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.wrong(f"{of} is no plain value")
        is_none = self._node.tag == "tag:yaml.org,2002:null"
        value: str = self._node.value
        return "" if is_none else value.strip()

    def truth(self, of: str) -> bool:
        """Whether the node says true."""
        said = self.text(of).lower()
        if said not in ("true", "false", ""):
            raise self.wrong(f"{of} must be true or false")
        return said == "true"

    def items(self, of: str) -> "list[YamlNode]":
        """The values of a list; none where nothing is said."""
        if isinstance(self._node, yaml.SequenceNode):
            return [YamlNode(item, self._path) for item in self._node.value]
        if isinstance(self._node, yaml.ScalarNode) and not self.text(of):
            return []
        raise self.wrong(f"{of} is no list")

    def pairs(self, of: str) -> "Iterator[tuple[YamlNode, str, YamlNode]]":
        """Of a table: each key with where it stands, and its value; a key comes once."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.wrong(f"{of} is no table of keys and values")
        seen = set()
        for key, value in self._node.value:
            at = YamlNode(key, self._path)
            name = at.text(f"a key of {of}")
            if name in seen:
                raise at.wrong(f"{name} stands twice in {of}")
            seen.add(name)
            yield at, name, YamlNode(value, self._path)

    def let_go(self) -> None:
        """Give up what stands below, one by one: freed at once, the values of a large file keep every other thread waiting."""
        for below in self._node.value if isinstance(self._node, yaml.MappingNode) else ():
            for node in below:
                values = node.value
                while isinstance(values, list) and values:
                    values.pop()


def read_yaml(content: bytes, path: str) -> YamlNode | None:
    """The whole of a file; None where nothing is in it.

    Raises:
        SettingsError: it is no YAML; the message names file and line, and holds nothing of what stands there.
    """
    try:
        node = yaml.compose(content, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise SettingsError(f"{path}{where}: no YAML can be read here") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SettingsError(f"{path}: it is no YAML, or no UTF-8") from None
    return None if node is None else YamlNode(node, path)
