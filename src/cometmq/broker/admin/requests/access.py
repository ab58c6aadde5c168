"""Requests about accounts (ACL 1.0) and users (Auth 2.0); refused if that kind of access control is off.

The handlers are imported only if they are needed, because imports slow down the start (docs/design/0001).
"""

from collections.abc import Callable

from cometmq.broker.parts import Parts
from cometmq.broker.refusals import refusing
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError
from cometmq.net.answer import Answer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere

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


def access_answers(parts: Parts) -> Answers:
    """Return the handlers of requests about accounts and users, or those that answer that these are off."""
    return {**_of_accounts(parts), **_of_users(parts)}


def _of_accounts(parts: Parts) -> Answers:
    if parts.guard.accounts is None:
        return dict.fromkeys(_OF_ACCOUNTS, refusing(ResponseCode.SYSTEM_ERROR, _NO_ACCOUNTS))
    from cometmq.broker.admin.requests.accounts import account_answers

    return account_answers(parts, parts.guard.accounts)


def _of_users(parts: Parts) -> Answers:
    if parts.guard.users is None:
        return dict.fromkeys(_OF_USERS, refusing(ResponseCode.SYSTEM_ERROR, _NO_USERS))
    from cometmq.broker.admin.requests.users import UserHandler

    return UserHandler(parts.guard.users).answers


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
