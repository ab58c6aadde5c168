"""The doctor's page, what it leaves out, and the marks of what is switched off."""

from pathlib import Path
from typing import Any

import pytest

from cometmq import Admin
from cometmq.admin import GroupConfig
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor, text_of, wait_for
from tests.dashboard.world import GROUP
from tests.support.processes import wait_until


def test_a_finding_has_a_section_and_a_time(reader: Visitor) -> None:
    said = text_of(reader.get("/doctor"))
    assert "abandoned" in said
    assert "docs/operate/when.md#a-group-has-no-members" in said
    assert "since 20" in said


def test_what_the_file_names_is_left_out_and_an_unusable_file_is_said(
    nameserver: str, tmp_path: Path
) -> None:
    ignored = tmp_path / "ignored"
    ignored.write_text(f"# it is kept on purpose\nabandoned:{GROUP}\n")
    with Served(tmp_path / "dashboard", nameserver, "--ignore-file", str(ignored)) as served:
        visitor = Visitor(served).log_in(READER, READER_PASSWORD)
        said = wait_for(visitor, "/doctor", "1 finding ignored")
        assert f"abandoned {GROUP}" not in said
        ignored.write_text("everything\n")
        said = text_of(visitor.get("/doctor"))
        assert "Nothing is ignored: ignore list" in said
        assert f"abandoned {GROUP}" in said
    # Its start says at once what is wrong.
    served = Served(tmp_path / "second", nameserver, "--ignore-file", str(ignored))
    with pytest.raises(
        RuntimeError, match=r"(?s)ended with 2:.*'everything' ignores no finding"
    ):
        served.program.start()


def test_many_alike_are_one_row(nameserver: str, reader: Visitor) -> None:
    with Admin(nameserver) as admin:
        names = [f"off-{number}" for number in range(7)]
        for name in names:
            admin.groups.create(GroupConfig(name, consume_enabled=False))
        try:
            said = wait_for(reader, "/doctor", "7 findings")
            assert all(name in said for name in names)
        finally:
            for name in names:
                admin.groups.delete(name)
        wait_until(
            lambda: "7 findings" not in reader.get("/doctor").text, seconds=20, what="their end"
        )


def test_readers_see_what_is_switched_off(nameserver: str, reader: Visitor) -> None:
    with Admin(nameserver) as admin:
        admin.groups.create(GroupConfig("stopped", consume_enabled=False))
        admin.topics.set("topic-007", {"perm": 4})
        try:
            cases: tuple[tuple[str, dict[str, Any], str], ...] = (
                ("/groups", {"find": "stopped"}, "stopped may not consume"),
                ("/group", {"name": "stopped"}, "State may not consume"),
                ("/group", {"name": "stopped"}, "may not consume at broker-a"),
                ("/topics", {"find": "topic-007"}, "topic-007 read only"),
                (
                    "/topic",
                    {"name": "topic-007"},
                    "The topic is not open for everything: read only",
                ),
            )
            for path, fields, says in cases:
                wait_for(reader, path, says, **fields)
        finally:
            admin.topics.set("topic-007", {"perm": 6})
            admin.groups.delete("stopped")
    assert "not open for everything" not in text_of(reader.get("/topic", name="topic-007"))
