"""A check before a start whether a folder can be used; nothing on the disk is changed."""

import os
from pathlib import Path

from cometmq.model.errors import SettingsError


def check_writable(key: str, folder: str) -> None:
    """Raise SettingsError, naming the setting, unless files can be created in a folder that exists or can be made."""
    place = Path(folder)
    while not place.exists() and place != place.parent:
        place = place.parent
    said = f"{key}={folder}: "
    if not place.is_dir():
        raise SettingsError(f"{said}{place} is not a folder; write the path of a folder")
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        what = (
            "it cannot be written" if str(place) == folder else f"it cannot be made in {place}"
        )
        raise SettingsError(
            f"{said}{what} by the user of this process; chown it to the user who runs the server, or write another path"
        )
