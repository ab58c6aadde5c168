"""Credentials for the requests of a command from a file; never from a flag, which all users of the machine can read."""

import os
from collections.abc import Mapping
from pathlib import Path

from cometmq.model.errors import SettingsError

# The keys of the file, with the variable of each.
KEYS = {
    "accessKey": "COMETMQ_ACCESS_KEY",
    "secretKey": "COMETMQ_SECRET_KEY",
    "securityToken": "COMETMQ_SECURITY_TOKEN",
}


def sign_with(path: Path) -> None:
    """Make later clients of this process and its child processes sign with the keys in a YAML file like `tools.yml`.

    Raises:
        SettingsError: The file cannot be read or parsed, all users may access it, or accessKey or secretKey is missing.
    """
    check_secrecy(path)
    for key, text in read_tools(path).items():
        if key in KEYS and text:
            os.environ[KEYS[key]] = text


def check_secrecy(path: Path) -> None:
    """Raise SettingsError if all users may access a file with credentials, or it cannot be examined."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    if mode & 0o007:
        raise SettingsError(
            f"{path} contains a secret, but other users may read it; run chmod 600 {path}"
        )


def read_tools(path: Path) -> Mapping[str, str]:
    """Return all keys of a YAML file like `tools.yml` with their texts.

    Raises SettingsError if it cannot be read or parsed, or has no accessKey or secretKey.
    """
    from cometmq.access.yaml_text import read_yaml

    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    top = read_yaml(content, str(path))
    pairs = [] if top is None else top.pairs("the file")
    values = {name: node.text(name) for _, name, node in pairs}
    for key in KEYS:
        if not values.get(key) and key != "securityToken":
            raise SettingsError(f"{path} has no {key}; add it")
    return values
