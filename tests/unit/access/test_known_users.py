"""Accounts of ACL 1.0 become users of Auth 2.0, or the start says which one cannot, before anything is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.access.keys import AccessKeys
from cometmq.access.known_users import known_users
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from tests.support.accounts import ADMIN, CANARY, account, write_accounts


def settings(folder: Path) -> AccessKeys:
    return AccessKeys(is_authentication_enabled=True, is_migrated=True, acl_folder=str(folder))


def test_accounts_become_users(tmp_path: Path):
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True))
    known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    again = known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    assert again.current.users.keys() == {ADMIN.access_key}


@pytest.mark.parametrize(
    ("name", "secret", "why"),
    [
        ("the sender", f"{CANARY}-1", "username: use 1 to 128 letters"),
        ("käufer-eins", f"{CANARY}-1", "username: use 1 to 128 letters"),
        ("sender-one", "s" * 300, "password: it must be a text of at most 256 characters"),
    ],
)
def test_an_account_that_no_user_can_be_is_refused_by_name_before_it_is_stored(
    tmp_path: Path, name: str, secret: str, why: str
):
    write_accounts(
        tmp_path / "plain_acl.yml",
        account(ADMIN, admin=True),
        account(Credentials(name, secret)),
    )
    with pytest.raises(SettingsError, match=why) as refused:
        known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    assert f"account '{name}' cannot become a user" in str(refused.value)
    assert secret not in str(refused.value)
    assert not (tmp_path / "config" / "auth.json").exists()


def test_what_another_broker_refuses_of_a_topic_is_refused_by_the_name_of_its_account(
    tmp_path: Path,
):
    sender = account(Credentials("sender-one", f"{CANARY}-1"), topicPerms=["a*b=PUB"])
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True), sender)
    with pytest.raises(
        SettingsError, match=r"account 'sender-one' cannot .*resource: it must be"
    ):
        known_users(settings(tmp_path), str(tmp_path / "config"), "c")


def test_a_dry_run_stores_nothing_and_finds_the_same(tmp_path: Path):
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True))
    dry = known_users(settings(tmp_path), str(tmp_path / "config"), "c", is_dry=True)
    assert dry.current.users.keys() == {ADMIN.access_key}
    assert not (tmp_path / "config").exists()
    there = replace(settings(tmp_path), auth_path=f"{tmp_path}/plain_acl.yml/config")
    with pytest.raises(
        SettingsError, match=r"^authConfigPath=.*plain_acl\.yml is not a folder"
    ):
        known_users(there, there.auth_path, "c", is_dry=True)
    known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    stored = json.loads((tmp_path / "config" / "auth.json").read_text())
    assert [user["username"] for user in stored["users"]] == [ADMIN.access_key]
