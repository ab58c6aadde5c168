"""A program's conf file (a Java properties file), and a file with the changes made over the wire.

The conf file belongs to its user and is never written. Remote changes are saved to FILE.overlay. At the next start
they override the file, and are overridden by environment and command line.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cometmq.codec.java_properties import decode_java_properties, encode_java_properties
from cometmq.model.errors import CodecError, SettingsError
from cometmq.model.settings import Layer, environment_layer, flags_layer
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk, read_file
from cometmq.store.real_disk import RealDisk


class ConfFile:
    """The conf file of one program.

    Attributes:
        path: Its absolute path; None without a file.
        above: Layers that override the file at each start: the environment and the command line.
    """

    def __init__(self, path: str | None, disk: Disk, *, above: Sequence[Layer] = ()) -> None:
        """Use the file at an absolute path; with None there is no file, and changes are lost at the next start."""
        self.above = above
        self.path = path
        self._disk = disk
        self._overlay = ConfigFile(f"{path}.overlay", disk) if path else None

    def layers(self) -> list[Layer]:
        """Return a layer of values for the file, then one for its overlay; none without a file.

        Raises SettingsError if reading fails.
        """
        if self.path is None:
            return []
        try:
            content = read_file(self._disk, self.path)
            return [
                Layer(self.path, decode_java_properties(content)),
                Layer(f"{self.path}.overlay", self._changes()),
            ]
        except (OSError, CodecError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(f"{self.path}: {reason}") from error

    def sources(self) -> str:
        """Return where a program's settings come from, for its log: its files, and the keys from elsewhere, without values."""
        files = self.path or "no configuration file"
        if self._overlay is not None and self._disk.exists(self._overlay.path):
            files += f" and {self._overlay.path}, which has the changes by requests"
        others = (
            (f"{', '.join(sorted(layer.values))} from the {layer.origin}")
            for layer in self.above
            if layer.values
        )
        return "; ".join((files, *others))

    def remember(self, changes: Mapping[str, str]) -> None:
        """Save values for the next start, unless the program has no conf file.

        Raises:
            OSError: The overlay cannot be read or written.
            CodecError: The overlay and its .bak are damaged, or one is and the other is missing.
        """
        if self._overlay is not None and changes:
            content = encode_java_properties({**self._changes(), **changes})
            self._overlay.save(content.decode("latin-1"))

    def _changes(self) -> dict[str, str]:
        if self._overlay is None:
            return {}
        return self._overlay.load(lambda text: decode_java_properties(text.encode())) or {}


def conf_file(
    kind: type, path: str | None, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> ConfFile:
    """Return the conf file, which is not read yet, of a program with settings of this kind; None or empty: it has none.

    Requests' changes are stored next to the file. Raises SettingsError if a flag in `arguments` is unknown.
    """
    above = environment_layer(kind, environment), flags_layer(kind, arguments)
    absolute = str(Path(path).absolute()) if path else None
    return ConfFile(absolute, RealDisk(), above=above)
