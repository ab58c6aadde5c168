"""Writes docs/operate/settings.md from the broker's settings class, so that the page cannot lag behind.

python tools/settings_table.py            write it
python tools/settings_table.py --check    say whether it is up to date
"""

from __future__ import annotations

import inspect
import sys
from enum import Enum
from pathlib import Path
from typing import Any

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.settings.unsupported_keys import UNSUPPORTED_KEYS
from cometmq.model.rocketmq_keys import GROUPS
from cometmq.model.settings import SettingKey, setting_keys

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operate" / "settings.md"

HEAD = """\
# Settings of the broker

<!-- made by tools/settings_table.py: change src/cometmq/broker/settings, and settings.py and retention.py in src/cometmq/store, instead -->

The broker reads a `broker.conf` for RocketMQ without changes: it has the same settings and, except for those
marked "differs", the same defaults. Flags override `COMETMQ_*` variables, these override the file, and the file overrides `NAMESRV_ADDR`:
`flushDiskType` is also `--flush-disk-type` and `COMETMQ_FLUSH_DISK_TYPE`. An unknown setting causes a
warning at the start, with the name that was probably meant; so does a setting of RocketMQ whose effect is missing here. [`cometmq config check FILE`](commands.md#check-a-file-before-it-is-used)
shows what becomes of each line of a file. `mqadmin updateBrokerConfig` changes a setting that "changes while it runs"
at once and for later starts: the change is stored next to the file, in `broker.conf.overlay`. For the settings of the nameserver, see [nameserver](../nameserver.md).

| key | default | meaning |
| --- | --- | --- |
"""

MISSED = """
## Settings for unsupported features

These are also settings of RocketMQ ([compatibility](../compatibility.md)). If one of them asks for its feature, the broker does not
start, or it warns, also with `-p`.

| key | then | why, and what to do |
| --- | --- | --- |
"""

REST = """
## Settings without effect

These are all other settings of RocketMQ 5.3.3 and 5.5.0 (brokers, nameservers, controllers), and some that people write beside them. They are accepted; a start
warns of those that users may count on, if their value asks for something. A setting of another program (of the nameserver in a
`broker.conf`) is warned of, too.

| settings | at the start | why they have no effect here |
| --- | --- | --- |
"""


def main(arguments: list[str]) -> int:
    """Write or check; the exit status."""
    text = page()
    if "--check" in arguments:
        is_same = PAGE.exists() and PAGE.read_text() == text
        print("up to date" if is_same else f"{PAGE} is not; run python tools/settings_table.py")
        return 0 if is_same else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    return 0


def page() -> str:
    """The page's text."""
    meanings = attribute_meanings(BrokerSettings)
    rows = "".join(row(key, meanings[key.attribute]) for key in setting_keys(BrokerSettings))
    groups = "".join(
        f"| {', '.join(f'`{key}`' for key in group.nothing)} "
        f"| {'warned of' if group.is_missing else 'accepted'} | {group.why} |\n"
        for group in GROUPS
    )
    missed = "".join(
        f"| {', '.join(f'`{key}`' for key in each.keys)} "
        f"| {'refused' if each.is_refused else 'warned of'} | {each.why} |\n"
        for each in UNSUPPORTED_KEYS
    )
    return HEAD + rows + MISSED + missed + REST + groups


def attribute_meanings(kind: type) -> dict[str, str]:
    """The meaning of each attribute, from the Attributes sections of a class and its bases."""
    meanings: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        _, _, section = inspect.cleandoc(part.__doc__ or "").partition("Attributes:\n")
        name = ""
        for line in section.splitlines():
            if line.startswith("        "):
                meanings[name] += " " + line.strip()
            else:
                name, _, meaning = line.strip().partition(": ")
                meanings[name] = meaning
    return meanings


def row(key: SettingKey, meaning: str) -> str:
    """One line of the table."""
    name = f"`{key.name}`" + "".join(f", `{alias}`" for alias in key.aliases)
    live = " Changes while it runs." if key.is_remote else ""
    if key.differs:
        meaning = f"{meaning.removesuffix('.')}; differs: {key.differs}."
    return f"| {name} | {shown(key)} | {meaning}{live} |\n"


def shown(key: SettingKey) -> str:
    """The default as people write it."""
    value: Any = key.default
    if key.name == "brokerName":
        return "the host's name"
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.name if isinstance(value, Enum) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
