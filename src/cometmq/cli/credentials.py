"""Credentials for the requests of a command from a file; never from a flag, which all users of the machine can read."""

import os
from pathlib import Path

from cometmq.model.errors import SettingsError

_KEYS = {
    "accessKey": "COMETMQ_ACCESS_KEY",
    "secretKey": "COMETMQ_SECRET_KEY",
    "securityToken": "COMETMQ_SECURITY_TOKEN",
}


def sign_with(path: Path) -> None:
    """Make later clients of this process and its child processes sign with the keys in a YAML file like `tools.yml`.

    Raises:
        SettingsError: The file cannot be read or parsed, all users may access it, or accessKey or secretKey is missing.
    """
    from cometmq.access.yaml_text import read_yaml

    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    if mode & 0o007:
        raise SettingsError(
            f"{path} contains a secret, but other users may read it; run chmod 600 {path}"
        )
    top = read_yaml(content, str(path))
    values = {} if top is None else {name: node for _, name, node in top.pairs("the file")}
    for key, variable in _KEYS.items():
        text = values[key].text(key) if key in values else ""
        if not text and key != "securityToken":
            raise SettingsError(f"{path} has no {key}; add it")
        if text:
            os.environ[variable] = text
