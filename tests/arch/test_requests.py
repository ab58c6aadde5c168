"""Every request that is answered stands in a table with its right and with what it touches."""

import json

import pytest

from cometmq.broker import requests as broker
from cometmq.model.codes import request_name
from cometmq.model.rights import ANY_NAME, Resource, Right
from cometmq.nameserver import requests as nameserver
from tests.fuzz.fitting import BROKER, NAMESERVER
from tools import requests_table

TABLES = [(broker.RULES, BROKER), (nameserver.RULES, NAMESERVER)]
RULES = [(rule, fits) for rules, fits in TABLES for rule in rules]

# What only this machine may ask as long as there is no access control. A code that leaves these lists is opened to everyone
# who reaches the port.
OF_BROKERS_MACHINE = {
    17, 18, 21, 25, 26, 28, 43, 45, 50, 51, 52, 53, 60, 61, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306,
    307, 308, 309, 314, 315, 316, 317, 321, 323, 328, 329, 343, 345, 353, 354, 355, 401, 402, 513, 902, 903, 905, 906, 907, 908, 1007, 1008, 2001, 2002, 2003, 2004, 30001, 30002, 30010, 30011, 30012,
    200056, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010,
}  # fmt: skip
OF_NAMESERVERS_MACHINE = {100, 102, 205, 216, 318, 319, 327}
# Names in a request that say something about a message, not what is done to a topic or group.
ASIDE = {"defaultTopic", "c", "producerGroup", "a", "originTopic", "filterGroups"}
# A producer's heartbeat, and its leave, touch nothing that has a right.
MAY_TOUCH_NOTHING = {34, 35}


@pytest.mark.parametrize(
    ("rules", "codes"),
    [(broker.RULES, OF_BROKERS_MACHINE), (nameserver.RULES, OF_NAMESERVERS_MACHINE)],
)
def test_the_requests_of_administrators_are_these_and_no_other(rules, codes):
    assert {int(rule.code) for rule in rules if rule.right is Right.ADMINISTRATOR} == codes


@pytest.mark.parametrize(("rules", "fits"), TABLES)
def test_a_table_has_each_code_once_and_all_that_are_fuzzed(rules, fits):
    codes = [int(rule.code) for rule in rules]
    assert len(codes) == len(set(codes))
    assert set(codes) == set(fits)


@pytest.mark.parametrize(
    ("rule", "fits"), RULES, ids=[request_name(rule.code) for rule, _ in RULES]
)
def test_what_a_request_names_is_what_it_touches(rule, fits):
    """Also the field names of the rules are right: a slip would find nothing."""
    kinds, form = fits[rule.code]
    fields = {name: f"{kind}-of-{name}" for name, kind in kinds.items()}
    body = b"" if form is None or isinstance(form, bytes) else json.dumps(form).encode()
    touched = rule.accesses(fields, body)
    assert touched, "no right could ever allow it"
    assert all(access.actions for access in touched)
    names = {access.name for access in touched}
    if Resource.CLUSTER in {access.resource for access in touched}:
        assert names == {ANY_NAME}
        return
    named = {
        fields[name]
        for name, kind in kinds.items()
        if kind in {"topic", "group"} and name not in ASIDE
    }
    assert named <= names
    for access in touched:
        is_group = "group" in access.name.lower()
        assert is_group == (access.resource is Resource.GROUP), access


@pytest.mark.parametrize("rules", [broker.RULES, nameserver.RULES])
def test_a_request_that_names_nothing_touches_nothing_or_all(rules):
    for rule in rules:
        if {finder.words.partition(" of the body")[1] for finder in rule.finders} == {""}:
            touched = rule.accesses({}, b"")
            assert all(access.name == ANY_NAME for access in touched), rule


def test_only_what_may_touch_nothing_is_for_anybody_at_a_broker():
    free = {int(rule.code) for rule in broker.RULES if rule.right is Right.ANYBODY}
    assert free == MAY_TOUCH_NOTHING


def test_the_page_of_requests_is_up_to_date():
    assert requests_table.main(["--check"]) == 0
