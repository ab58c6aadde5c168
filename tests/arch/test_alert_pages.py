"""Each alert that operators get has a section on their page, which its link leads to, and the page has no other."""

import re

import yaml

from tests.support.pages import ROOT

PAGE = ROOT / "docs" / "operate" / "alerts.md"
GROUPS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"]]


def test_alerts_and_sections_have_the_same_names():
    sections = re.findall(r"^## (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(rule["alert"] for rule in ALERTS)


def test_each_says_how_bad_it_is_what_it_is_and_where_to_read_on():
    for rule in ALERTS:
        name = rule["alert"]
        assert re.fullmatch(r"CometMQ[A-Z]\w+", name)
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        assert "{{ $" in notes["summary"], f"{name}: which one?"
        assert len(notes["description"]) > 40, name
        assert notes["runbook_url"] == f"docs/operate/alerts.md#{name.lower()}"


def test_a_label_that_an_alert_names_is_one_that_its_query_keeps():
    """Labels beside those of `by` are lost in a sum, and the alert would read "Group  falls behind"."""
    for rule in ALERTS:
        kept = re.match(r"(?:sum|max|min|count) by \(([^)]*)\)", rule["expr"].strip())
        if kept is None:
            continue
        labels = {each.strip() for each in kept[1].split(",")}
        named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert named <= labels, rule["alert"]
