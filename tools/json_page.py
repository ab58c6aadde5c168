"""Makes the tables of docs/operate/json.md and json-store.md of the named tuples and data classes of the commands.

python -m tools.json_page            write them
python -m tools.json_page --check    say whether they are up to date

Tests check every table against what the commands print.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cometmq.model.message import StoredMessage
from cometmq.offline.known_queues import QueueId
from tools.settings_table import attribute_meanings

_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "operate"
PAGES = [_FOLDER / "json.md", _FOLDER / "json-store.md"]
# The classes whose fields the objects of each section have, by the heading of the section without backticks. After '+'
# stands a property that is a field, too.
_MESSAGE = "cometmq.model.message_json.MessageLine"
SECTIONS = {
    "cluster list": "cometmq.cli.brokers.BrokerLine",
    "cluster show": "cometmq.cli.brokers.BrokerNumbers",
    "profile list": "cometmq.cli.profiles.ProfileLine",
    "profile show": "cometmq.cli.profiles.ProfileValues",
    "dashboard user list": "cometmq.cli.dashboard.DashboardUserLine",
    "kv list": "cometmq.cli.kv.KvLine",
    "kv show": "cometmq.cli.kv.KvLine",
    "cluster config": "cometmq.cli.brokers.ConfigLine",
    "config check": "cometmq.cli.config_files.CheckedRow+severity",
    "doctor": "cometmq.admin.Symptom+see",
    "acl list": "cometmq.admin.UserLine",
    "acl show": "cometmq.admin.EntryLine",
    "acl test": "cometmq.cli.accounts.DecisionLine",
    "acl copy": "cometmq.cli.user_copies.CopiedUserLine",
    "cluster replicas": "cometmq.cli.cluster.ReplicaLine",
    "cluster producers": "cometmq.cli.cluster.ProducerLine",
    "group list": "cometmq.cli.groups.GroupLine",
    "group show": "cometmq.cli.groups.ShownGroup",
    "group settings": "cometmq.cli.groups.GroupSettingsLine",
    "member": "cometmq.cli.groups.MemberLine",
    "running member": "cometmq.cli.groups.ReportedMember",
    "consume rates": "cometmq.admin.ConsumeRates",
    "held queue": "cometmq.cli.groups.HeldQueueLine",
    "group conflicts": "cometmq.cli.explain.ConflictLine",
    "offset show": "cometmq.cli.groups.ProgressLine",
    "offset reset, offset skip, offset copy, offset import": "cometmq.cli.offsets.MoveLine",
    "offset export": "cometmq.cli.offsets.OffsetExport",
    "exported offset": "cometmq.cli.offsets.ExportedOffset",
    "dlq list": "cometmq.cli.dead_letters.DeadLetterLine",
    "dlq stats": "cometmq.admin.DeadLetterStats",
    "dlq replay": "cometmq.client.admin.replay.ReplayResult",
    "dlq export, dlq show": f"{_MESSAGE} cometmq.client.admin.letters.LetterOrigin",
    "topic list": "cometmq.cli.topics.TopicLine",
    "topic show": "cometmq.cli.topic_show.ShownTopic",
    "traffic": "cometmq.cli.topic_show.TrafficLine",
    "topic settings": "cometmq.cli.topic_show.TopicSettingsLine",
    "topic queue": "cometmq.cli.topic_show.QueueLine",
    "reader": "cometmq.cli.topic_show.ReaderLine",
    "send": "cometmq.cli.send.SentLine",
    "tail, consume, transactions list": _MESSAGE,
    "message find": f"{_MESSAGE} cometmq.cli.messages.DeletedMark",
    "message delayed": f"{_MESSAGE} cometmq.cli.delayed.DelayLine",
    "message trace": "cometmq.cli.message_trace.TraceLine",
    "message resend": "cometmq.cli.message_trace.ResendOutcome",
    "explain": "cometmq.admin.Explanation+answer",
    "explained check": "cometmq.admin.ExplainFinding",
    "store verify": "cometmq.offline.verify.StoreVerdict+is_sound",
    "store finding": "cometmq.offline.findings.Finding",
    "store stat": "cometmq.offline.summary.Summary",
    "store queue": "cometmq.offline.summary.QueueSummary",
    "store compare": "cometmq.cli.store_text.StoreComparison",
    "store difference": "cometmq.cli.store_text.StoreDifference",
    "store repair": "cometmq.cli.store.RepairMark cometmq.offline.repair.RepairPlan",
    "store damage": "cometmq.offline.repair.Damage",
    "store expired": "cometmq.cli.expired.ExpiredFile",
    "store rebuild, store archive, store restore, store import-dledger": "cometmq.cli.store_files.StoreWork",
}
WORDS: dict[Any, str] = {
    str: "text", int: "integer", float: "number", bool: "boolean", QueueId: "text",
}  # fmt: skip
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
    places = SECTIONS.get(_title(section))
    if places is None:
        return section[0]
    rows = "".join(map(rows_of, places.split()))
    return _ROWS.sub(lambda found: found[1] + rows, section[0], count=1)


def rows_of(place: str) -> str:
    """The rows of a class and, after a '+', of a property: name, type and meaning of each field."""
    place, _, added = place.partition("+")
    kind = _class(place)
    meanings, hints = attribute_meanings(kind), get_type_hints(kind, localns=_PublicNames())
    if added:
        getter = getattr(kind, added).fget
        hints[added] = get_type_hints(getter)["return"]
        meanings[added] = getter.__doc__.splitlines()[0]
    rows = ""
    for name, hint in hints.items():
        meaning = _NONE.sub("null", meanings[name]).removesuffix(".")
        rows += f"| `{name}` | {type_word(hint)} | {meaning} |\n"
    return rows


def _class(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


class _PublicNames(dict[str, Any]):
    """Names of `cometmq.admin`, which commands import late."""

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(import_module("cometmq.admin"), name)
        except AttributeError:
            raise KeyError(name) from None


def type_word(hint: Any) -> str:
    """A type in the words of the page."""
    origin, given = get_origin(hint), get_args(hint)
    if origin in (list, tuple):
        return f"list of {type_word(given[0])}"
    if origin in (dict, Mapping):
        return f"table of {type_word(given[1])}"
    kinds = [each for each in given or (hint,) if each is not type(None)]
    return _word(kinds[0]) + (" or null" if len(kinds) < len(given) else "")


def _word(kind: type) -> str:
    if kind is StoredMessage:
        return "tail"
    if kind in WORDS:
        return WORDS[kind]
    if issubclass(kind, Enum):
        return WORDS[str]
    return next(
        title for title, place in SECTIONS.items() if place.endswith(f".{kind.__name__}")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
