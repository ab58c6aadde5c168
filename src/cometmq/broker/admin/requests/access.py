"""Requests about accounts (ACL 1.0) and users (Auth 2.0); refused if that kind of access control is off.

The handlers are imported only if they are needed, because imports slow down the start (docs/design/0001).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.refusals import refusing
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError
from cometmq.net.answer import Answer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere

if TYPE_CHECKING:
    from cometmq.broker.admin.requests.users import UserHandler

_OF_ACCOUNTS = (
    Code.UPDATE_AND_CREATE_ACL_CONFIG,
    Code.DELETE_ACL_CONFIG,
    Code.GET_BROKER_CLUSTER_ACL_INFO,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
)
_NO_ACCOUNTS = "there are no accounts: ACL 1.0 is off; set aclEnable=true"
_OF_USERS = (
    Code.AUTH_CREATE_USER,
    Code.AUTH_UPDATE_USER,
    Code.AUTH_DELETE_USER,
    Code.AUTH_GET_USER,
    Code.AUTH_LIST_USER,
    Code.AUTH_CREATE_ACL,
    Code.AUTH_UPDATE_ACL,
    Code.AUTH_DELETE_ACL,
    Code.AUTH_GET_ACL,
    Code.AUTH_LIST_ACL,
)
_NO_USERS = "there are no users: Auth 2.0 is off; set authenticationEnabled=true"


class AccessFeature(Feature):
    """The feature of accounts and users: their requests, and the users as a table of a group that elects its leader."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._users = _users_of(parts)
        if self._users is not None:
            self.logged_tables = (self._users.logged_table(),)
        self.answers = {
            **_of_accounts(parts),
            **(
                dict.fromkeys(_OF_USERS, refusing(ResponseCode.SYSTEM_ERROR, _NO_USERS))
                if self._users is None
                else self._users.answers
            ),
        }

    async def start(self) -> None:
        """On the leader of a group, create the users that its settings name. Raises the errors of `ensure_again`."""
        if self._users is not None and self._parts.settings.is_elected:
            await self._parts.run(self._users.ensure_again())

    async def follow(self) -> None:
        """Do nothing on a slave: the users of the settings exist since its start."""


def _of_accounts(parts: Parts) -> Answers:
    if parts.guard.accounts is None:
        return dict.fromkeys(_OF_ACCOUNTS, refusing(ResponseCode.SYSTEM_ERROR, _NO_ACCOUNTS))
    from cometmq.broker.admin.requests.accounts import account_answers

    return account_answers(parts, parts.guard.accounts)


def _users_of(parts: Parts) -> UserHandler | None:
    if parts.guard.users is None:
        return None
    from cometmq.broker.admin.requests.users import UserHandler

    return UserHandler(parts.guard.users, parts.run)


def changed(work: Callable[[], object], what: str, *, wrong: int, failed: int) -> Steps[Answer]:
    """Run `work`, which changes `what` in a file, in a thread, and return the answer SUCCESS.

    Raises RequestError, nothing being changed: with the code `wrong` for a wrong value, `failed` if the disk fails.
    """
    try:
        yield from elsewhere(work)
    except SettingsError as error:
        raise RequestError(wrong, f"{error}; nothing was changed") from None
    except OSError as error:
        why = error.strerror or "unknown error"
        raise RequestError(
            failed, f"{what} cannot be written: {why}; nothing was changed"
        ) from None
    return Answer()
