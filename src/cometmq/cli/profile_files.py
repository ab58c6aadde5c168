"""Profiles: the addresses, TLS files and keys of clusters, each in a YAML file of the user's configuration folder.

`$XDG_CONFIG_HOME/cometmq/profiles/NAME.yaml` (default of the folder: `~/.config`); `cometmq/profile` beside that folder has
the name of the one that is used. A profile acts through the variables of the environment that all clients read.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cometmq.cli.credentials import KEYS, check_secrecy
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

VARIABLE = "COMETMQ_PROFILE"
# The keys of a profile, with the variable of each.
VARIABLES = {
    "nameserver": "NAMESRV_ADDR",
    "tls": "COMETMQ_TLS",
    "caFile": "COMETMQ_TLS_CA_FILE",
    "certFile": "COMETMQ_TLS_CERT_FILE",
    "keyFile": "COMETMQ_TLS_KEY_FILE",
    **KEYS,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SIZE_MAX = 64 * 1024


def _home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cometmq"


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"{in_quotes(name)} cannot name a profile; use up to 64 letters, digits, '.', '-' and '_', a letter or digit "
            "first"
        )
    return _home() / "profiles" / f"{name}.yaml"


def names() -> list[str]:
    """Return the names of all profiles, sorted."""
    return sorted(path.stem for path in (_home() / "profiles").glob("*.yaml"))


def used() -> str | None:
    """Return the name of the profile that commands use if they name none; None if there is none."""
    try:
        return (_home() / "profile").read_text().strip() or None
    except FileNotFoundError:
        return None


def use(name: str | None) -> None:
    """Let commands that name no profile use this one from now on, or none.

    Raises:
        SettingsError: There is no such profile.
    """
    if name is not None:
        _existing(name)
        (_home() / "profile").write_text(f"{name}\n")
    else:
        (_home() / "profile").unlink(missing_ok=True)


def read(name: str) -> dict[str, str]:
    """Return the values of a profile by their keys (`VARIABLES`).

    Raises:
        SettingsError: There is no such profile, its file is no YAML of these keys, or others may read the secret in it.
    """
    from cometmq.access.yaml_text import read_yaml

    path = _existing(name)
    with path.open("rb") as file:
        content = file.read(_SIZE_MAX + 1)
    if len(content) > _SIZE_MAX:
        raise SettingsError(f"{path} has more than {_SIZE_MAX} bytes, so it is no profile")
    top = read_yaml(content, str(path))
    values = {}
    for key, text, value in () if top is None else top.pairs("the profile"):
        if text not in VARIABLES:
            raise key.wrong(
                f"{in_quotes(text)} is no key of a profile; it has {', '.join(VARIABLES)}"
            )
        values[text] = value.text(text)
    if "secretKey" in values:
        check_secrecy(path)
    return values


def write(name: str, values: Mapping[str, str], *, is_new: bool) -> None:
    """Write a profile, readable by its owner alone.

    Raises:
        SettingsError: The name is invalid; or `is_new` and there is such a profile, or neither.
    """
    import yaml

    path = _path(name) if is_new else _existing(name)
    if is_new and path.exists():
        raise SettingsError(
            f"there is a profile {in_quotes(name)}; cometmq profile set {name} changes it"
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as text:
        yaml.safe_dump(dict(values), text, sort_keys=False)
    part.replace(path)


def delete(name: str) -> None:
    """Delete a profile; if it is the used one, commands use none from now on.

    Raises:
        SettingsError: There is no such profile.
    """
    _existing(name).unlink()
    if used() == name:
        use(None)


def follow(name: str | None) -> None:
    """Make later clients of this process and its child processes use a profile alone, whatever the environment says.

    Without a name it is the one that `use` chose, if any, unless the environment already has one of its `VARIABLES`.

    Raises:
        SettingsError: The profile cannot be used; as for `read`.
    """
    if name is None and not any(map(os.environ.get, VARIABLES.values())):
        name = used()
    if name is None:
        return
    values = read(name)
    for key, variable in VARIABLES.items():
        if key in values:
            os.environ[variable] = values[key]
        else:
            os.environ.pop(variable, None)


def _existing(name: str) -> Path:
    path = _path(name)
    if not path.is_file():
        known = ", ".join(names()) or "none; cometmq profile create NAME makes one"
        raise SettingsError(f"there is no profile {in_quotes(name)}; there is {known}")
    return path
