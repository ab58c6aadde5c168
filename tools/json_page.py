"""Makes tables of docs/operate/json.md and json-store.md: of objects that are named tuples or data classes of the commands.

python -m tools.json_page            write them
python -m tools.json_page --check    say whether they are up to date

The other tables, of objects that a command puts together, are written by hand; tests check every table against what the
commands print.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from tools.settings_table import attribute_meanings

_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "operate"
PAGES = [_FOLDER / "json.md", _FOLDER / "json-store.md"]
# The class of the objects of each section, by the heading of the section without backticks.
SECTIONS = {
    "cluster list": "cometmq.cli.brokers.BrokerLine",
    "profile list": "cometmq.cli.profiles.ProfileLine",
    "kv list": "cometmq.cli.kv.KvLine",
    "kv show": "cometmq.cli.kv.KvLine",
    "cluster config": "cometmq.cli.brokers.ConfigLine",
    "acl copy": "cometmq.cli.user_copies.CopiedUserLine",
    "cluster replicas": "cometmq.cli.cluster.ReplicaLine",
    "cluster producers": "cometmq.cli.cluster.ProducerLine",
    "group list": "cometmq.cli.groups.GroupLine",
    "member": "cometmq.cli.groups.MemberLine",
    "queue progress": "cometmq.cli.groups.ProgressLine",
    "offset reset, offset skip, offset copy, offset import": "cometmq.cli.offsets.MoveLine",
    "dlq list": "cometmq.cli.dead_letters.DeadLetterLine",
    "dlq stats": "cometmq.cli.dead_letters.DeadLetterStatsLine",
    "topic queues": "cometmq.cli.topic_stats.QueueStateLine",
    "reader": "cometmq.cli.topic_stats.ReaderLine",
    "topic perm": "cometmq.cli.topic_stats.PermLine",
    "topic list": "cometmq.cli.topics.TopicLine",
    "topic queue": "cometmq.cli.topics.QueueLine",
    "acl users": "cometmq.admin.UserLine",
    "acl policies": "cometmq.admin.EntryLine",
    "side": "cometmq.admin.ConflictSide",
    "explained check": "cometmq.admin.ExplainFinding",
    "consume rates": "cometmq.admin.ConsumeRates",
    "store finding": "cometmq.offline.findings.Finding",
    "store damage": "cometmq.offline.repair.Damage",
    "store expired": "cometmq.cli.expired.ExpiredFile",
}
WORDS: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_SECTION = re.compile(r"^(#{2,3} )([^\n]+)\n(.*?)(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)
_NONE = re.compile(r"\bNone\b")
_ROWS = re.compile(r"(\| --- \| --- \| --- \|\n)(?:\|[^\n]*\n)*")


def main(arguments: list[str]) -> int:
    """Write or check; the exit status."""
    before = {page: page.read_text() for page in PAGES}
    lacking = set(SECTIONS) - {
        _title(found) for text in before.values() for found in _SECTION.finditer(text)
    }
    assert not lacking, f"no page has a section {', '.join(sorted(lacking))}"
    news = {page: _SECTION.sub(_section, text) for page, text in before.items()}
    stale = [page for page in PAGES if news[page] != before[page]]
    if "--check" in arguments:
        for page in stale:
            print(f"{page} is not up to date; run python -m tools.json_page")
        return 1 if stale else 0
    for page in stale:
        page.write_text(news[page])
    return 0


def _title(section: re.Match[str]) -> str:
    return section[2].replace("`", "")


def _section(section: re.Match[str]) -> str:
    place = SECTIONS.get(_title(section))
    if place is None:
        return section[0]
    module, _, name = place.rpartition(".")
    rows = rows_of(getattr(import_module(module), name))
    return _ROWS.sub(lambda found: found[1] + rows, section[0], count=1)


def rows_of(kind: type) -> str:
    """The rows of a table: name, type and meaning of each field."""
    meanings = attribute_meanings(kind)
    rows = ""
    for name, hint in get_type_hints(kind).items():
        meaning = _NONE.sub("null", meanings[name]).removesuffix(".")
        rows += f"| `{name}` | {type_word(hint)} | {meaning} |\n"
    return rows


def type_word(hint: Any) -> str:
    """A type in the words of the page."""
    if get_origin(hint) in (list, tuple):
        return f"list of {type_word(get_args(hint)[0])}"
    kinds = [each for each in get_args(hint) or (hint,) if each is not type(None)]
    return WORDS[kinds[0]] + (" or null" if len(kinds) < len(get_args(hint)) else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
