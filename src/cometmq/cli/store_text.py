"""Output of `cometmq store`: verification results, summaries, records, comparisons and repair plans; text and JSON."""

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from cometmq.cli.output import notes, print_table, screen
from cometmq.model.text import plural, printable, time_text

if TYPE_CHECKING:
    from cometmq.codec.record import Record
    from cometmq.offline.copy_compare import CopyComparison
    from cometmq.offline.digests import MessageDifference
    from cometmq.offline.found import FoundStore
    from cometmq.offline.repair import RepairPlan
    from cometmq.offline.summary import Summary
    from cometmq.offline.verify import StoreVerdict

DIFFERENCES_MAX = 1000  # In JSON.
SHOWN_MAX = 20  # Findings printed for people; --json gives up to a thousand.


class StoreDifference(NamedTuple):
    """A place in a queue at which two stores differ.

    Attributes:
        queue: Topic and queue id, "topic/id".
        offset: Offset in the queue.
        what: Description of the difference.
    """

    queue: str
    offset: int
    what: str


class StoreComparison(NamedTuple):
    """The JSON of a comparison.

    Attributes:
        same: Whether both hold the same readable messages.
        queues: Number of queues with compared messages in either.
        messages: Number of messages that were compared.
        differing: Number of known differences; a block that was not examined counts as one.
        differences: The first thousand of them.
        damages: The first thousand pieces of a log that are no record, and so are not compared.
        notes: Kinds of A and B, and how many messages were not compared.
    """

    same: bool
    queues: int
    messages: int
    differing: int
    differences: list[StoreDifference]
    damages: list[str]
    notes: list[str]


def print_verdict(verdict: "StoreVerdict") -> None:
    """Print the result of a verification as text, with its first 20 findings."""
    for finding in verdict.findings[:SHOWN_MAX]:
        mark, style = ("error", "bold red") if finding.is_error else ("note", "yellow")
        where = f" {finding.part} {printable(finding.where)}: "
        screen().print(Text.assemble((mark, style), where, printable(finding.what)))
    more = verdict.errors + verdict.notes - SHOWN_MAX
    if more > 0:
        screen().print(f"… and {more} more")
    word, style = ("sound", "bold green") if verdict.is_sound else ("not sound", "bold red")
    screen().print(
        Text.assemble(
            (word, style),
            f": {verdict.records} {plural(verdict.records, 'record')} from {verdict.log_start} to {verdict.log_end}, "
            f"{verdict.queue_entries} queue entries, {verdict.index_entries} index entries; "
            f"{verdict.errors} {plural(verdict.errors, 'error')}, "
            f"{verdict.notes} {plural(verdict.notes, 'note')}",
        )
    )


def print_summary(summary: "Summary") -> None:
    """Print the summary of a store as text."""
    size = summary.log_file_size
    print_table(
        ("store", printable(summary.path)),
        [
            (
                "last stop",
                "clean" if summary.stopped_cleanly else "not clean (the file abort exists)",
            ),
            (
                "log",
                f"{summary.log_start} to {summary.log_end}, {summary.log_files} {plural(summary.log_files, 'file')} of {size}",
            ),
            *_no_records(summary),
            ("first record", _time(summary.first_ms)),
            ("last record", _time(summary.last_ms)),
            ("on the device until", _time(summary.known_flushed_ms or None)),
            (
                "index",
                f"{summary.index_files} {plural(summary.index_files, 'file')}, {summary.index_keys} {plural(summary.index_keys, 'key')}",
            ),
            ("copies of cut tails", str(summary.cut_copies)),
        ],
    )
    rows = [(row.topic, row.queue, row.first, row.next, row.messages) for row in summary.queues]
    if rows:
        screen().print()
        print_table(("topic", "queue", "first", "next", "messages"), rows)


def _no_records(summary: "Summary") -> list[tuple[str, str]]:
    """Return a list with the table row of the number of bytes that are not records; empty if there are none."""
    if not summary.no_records:
        return []
    return [("no records", f"{summary.no_records} bytes; `cometmq store verify` shows where")]


def _time(time_ms: int | None) -> str:
    return "-" if time_ms is None else time_text(time_ms)


def print_fields(found: "FoundStore", record: "Record") -> None:
    """Print a heading and the fields of a record, a line each: physical offset, name, bytes in hexadecimal."""
    from cometmq.offline.record_text import record_fields

    file = found.log.chain.find(record.physical_offset)
    assert file is not None  # It has just been read there.
    content = file.read(record.physical_offset, record.store_size)
    screen().print(
        f"# {record.store_size} bytes at {record.physical_offset}, {printable(record.topic)} "
        f"queue {record.queue_id} offset {record.queue_offset}"
    )
    for at, name, piece in record_fields(content, record):
        screen().print(
            f"{record.physical_offset + at:<12} {name:<16} {piece.hex()}", markup=False
        )
    screen().print()


def comparison_json(found: "CopyComparison") -> StoreComparison:
    """Return the result of a comparison for JSON; at most 1,000 differences and 1,000 damages."""
    return StoreComparison(
        found.is_same,
        found.queues,
        min(found.rows),
        found.differing,
        [*map(_difference, found.differences[:DIFFERENCES_MAX])],
        found.damages[:DIFFERENCES_MAX],
        found.notes,
    )


def _difference(found: "MessageDifference") -> StoreDifference:
    return StoreDifference(f"{found.topic}/{found.queue_id}", found.offset, found.what)


def print_comparison(found: "CopyComparison") -> None:
    """Print the result of a comparison as text, with its first 20 differences."""
    shown = [*map(_difference, found.differences[:SHOWN_MAX])]
    if shown:
        print_table(("queue", "offset", "difference"), shown)
    for line in (*found.notes, *found.findings):
        notes().print(line, markup=False)
    for line in found.damages:
        screen().print(f"damaged: {printable(line)}")
    word = (
        "the same"
        if found.is_same
        else f"{found.differing} {plural(found.differing, 'difference')}"
    )
    if found.damages:
        word += f" beside {len(found.damages)} damaged {plural(len(found.damages), 'piece')}"
    queues, count = found.queues, min(found.rows)
    screen().print(
        f"{word}: {queues} {plural(queues, 'queue')}, {count} {plural(count, 'message')} compared"
    )


def print_plan(plan: "RepairPlan") -> None:
    """Print what a repair changes or would change: the damaged bytes, and how much is cut, wrapped and rebuilt."""
    for damage in plan.damages:
        what = (
            f"{damage.end - damage.start} bytes of {damage.path} at {damage.at}: {damage.why}"
        )
        screen().print(f"damaged: {printable(what)}")
    how = "cut" if plan.is_cut else "wrapped"
    screen().print(
        f"{len(plan.damages)} damaged {plural(len(plan.damages), 'piece')} {how}, {plan.tail} bytes after the end of "
        f"the log removed; {len(plan.queues)} {plural(len(plan.queues), 'queue')} and {plan.index_files} index "
        f"{plural(plan.index_files, 'file')} rebuilt from {plan.records} {plural(plan.records, 'record')}"
    )
