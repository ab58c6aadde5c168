"""Requests 3001 to 3010: read and change users and policies of Auth 2.0; no answer has a password.

Many remarks of refusals are those of RocketMQ 5.3.3 (AdminBrokerProcessor, AuthenticationMetadataManagerImpl,
AuthorizationMetadataManagerImpl).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import orjson

from cometmq.access.auth_users import (
    AuthFile,
    AuthUser,
    name_of,
    no_subject,
    with_policies,
)
from cometmq.access.policies import CUSTOM, UserPolicies, read_policies
from cometmq.access.switch_interval import short_switch_interval
from cometmq.broker.admin.requests.access import changed
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.saving import Logged, not_logged, saved
from cometmq.codec.bodies.json_object import JsonObject
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError, SettingsError, invalid_parameter
from cometmq.model.rights import Asker
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, WithAsker
from cometmq.steps.on_loop import RunSteps
from cometmq.steps.steps import Steps, elsewhere

_log = logging.getLogger(__name__)

_BODY_MAX = 1 << 20
# RocketMQ's clients accept frames of up to 16 MiB.
_LIST_MAX = 15 << 20
# Placeholder for a password in answers; refused as a password, because tools that copy users would send it back.
_HIDDEN = "******"


class UserHandler:
    """Handles requests about the users of Auth 2.0 and their policies.

    Attributes:
        logged: Waits for the log of the group that this broker leads, if it leads one.
    """

    def __init__(self, users: AuthFile, run: RunSteps) -> None:
        """`run` runs changes to their end, of which a leader waits before it follows another one."""
        self._users = users
        self._run = run
        self._on_change: list[Callable[[str], None]] = []
        self.logged: Logged = not_logged
        self.answers: Answers = {
            RequestCode.AUTH_CREATE_USER: WithAsker(partial(self.put_user, is_new=True)),
            RequestCode.AUTH_UPDATE_USER: WithAsker(partial(self.put_user, is_new=False)),
            RequestCode.AUTH_DELETE_USER: WithAsker(self.delete_user),
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.put_policies,
            RequestCode.AUTH_UPDATE_ACL: self.put_policies,
            RequestCode.AUTH_DELETE_ACL: self.delete_policies,
            RequestCode.AUTH_GET_ACL: self.get_policies,
            RequestCode.AUTH_LIST_ACL: self.list_policies,
        }

    def put_user(
        self, command: Command, _peer: Peer, asker: Asker, *, is_new: bool
    ) -> Steps[Answer]:
        """Create a user (3001), or change one (3002).

        Raises:
            RequestError: The user exists already, or does not exist; a value is invalid; or the asker lacks the right.
        """
        users, name = self._users, _username(command)
        values = _json(command)
        if values.get("password") == _HIDDEN:
            raise invalid_parameter(
                f"password: {_HIDDEN} is the placeholder for a password in answers; send the password itself"
            )
        return self._change(
            name,
            lambda: users.put_user(name, values, is_new=is_new, asker=asker),
            f"user {name}",
        )

    def delete_user(self, command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        """Delete a user, if it exists (3003); RequestError for the last Super user, or if the asker may not do it."""
        users, name = self._users, _username(command)
        return self._change(name, lambda: users.delete_user(name, asker=asker), f"user {name}")

    def get_user(self, command: Command, _peer: Peer) -> Answer:
        """Answer with a user as JSON, or with an empty body if there is none (AUTH_GET_USER 3004)."""
        user = self._users.current.find(_username(command))
        # As in RocketMQ, the answer is SUCCESS without a body if there is none.
        return Answer(body=b"" if user is None else orjson.dumps(user.to_json()))

    def list_users(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with the users whose names contain a filter, as JSON sorted by name, or no body (AUTH_LIST_USER 3005)."""
        part, known = command.fields.get("filter") or "", self._users.current.users
        found = (user.to_json() for name, user in sorted(known.items()) if part in name)
        return (yield from elsewhere(lambda: listed(found, "filter")))

    def put_policies(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Add or replace entries of an existing user's policies (AUTH_CREATE_ACL 3006 and AUTH_UPDATE_ACL 3007)."""
        users = self._users
        body = _json(command)
        name = _subject(command, body)
        try:
            policies = read_policies(body.get("policies"))
        except SettingsError as error:
            raise invalid_parameter(str(error)) from None
        return self._change(
            name, lambda: users.put_policies(name, policies), f"the policies of {name}"
        )

    def delete_policies(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Delete a user's policy entry for a resource, or without a resource all entries (AUTH_DELETE_ACL 3008)."""
        users, name = self._users, _subject(command, {})
        policy = command.fields.get("policyType") or CUSTOM
        resource = command.fields.get("resource")
        return self._change(
            name,
            lambda: users.delete_policies(name, policy, resource),
            f"the policies of {name}",
        )

    def get_policies(self, command: Command, _peer: Peer) -> Answer:
        """Answer with a user's policies as JSON, or no body if there are none; RequestError without a user (3009)."""
        user = self._users.current.find(_subject(command, {}))
        if user is None:
            raise no_subject()
        return Answer(body=orjson.dumps(_acl(user)) if user.policies.entries else b"")

    def list_policies(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with policies of users as JSON, filtered by user and resource; no body if none (AUTH_LIST_ACL 3010)."""
        subject = command.fields.get("subjectFilter") or ""
        resource = command.fields.get("resourceFilter") or ""
        known = self._users.current.users
        found = (
            _acl(user, policies)
            for name, user in sorted(known.items())
            if subject in f"User:{name}" and (policies := user.policies.about(resource)).entries
        )
        narrower = "subjectFilter or resourceFilter"
        return (yield from elsewhere(lambda: listed(found, narrower)))

    # --- a group that elects its leader

    def ensure_again(self) -> Steps[None]:
        """Create or change the users that the settings name, as at a start, because the log may have other users.

        Raises the errors of `AuthFile.ensure_again`.
        """
        for name in (yield from elsewhere(self._users.ensure_again)):
            self._note(name)

    def logged_table(self) -> LoggedTable:
        """Return the users, with passwords and policies, as a table of a group that elects its leader."""
        users = self._users

        def value(name: str) -> dict[str, Any] | None:
            user = users.current.find(name)
            return None if user is None else with_policies(user)

        def read(part: JsonObject, name: str) -> AuthUser:
            try:
                return users.read(name, part.member(name).raw())
            except SettingsError as error:
                raise CodecError(f"a user cannot be read: {error}") from None

        # Refused changes, because the next Super user comes in a later piece.
        waiting: dict[str, AuthUser | None] = {}

        def apply(changes: Mapping[str, AuthUser | None]) -> Steps[None]:
            waiting.update(changes)
            together = dict(waiting)
            try:
                yield from elsewhere(lambda: users.put_all(together))
                waiting.clear()
            except RequestError as error:
                _log.warning("the users of the leader are not taken yet: %s", error)

        return LoggedTable(
            "users",
            lambda: list(users.current.users),
            value,
            read,
            apply,
            self._on_change,
            self,
        )

    def _note(self, name: str) -> None:
        for note in self._on_change:
            note(name)

    def _change(self, name: str, work: Callable[[], object], what: str) -> Steps[Answer]:
        """Run `work`, which changes a user, in a thread, and answer with success once a group of this broker has the change.

        Raises RequestError if it fails; nothing is changed then, unless the log of a group fails.
        """
        wrong, failed = ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR
        yield from saved(self._run(changed(work, what, wrong=wrong, failed=failed)))
        self._note(name)
        yield from saved(self.logged())
        return Answer()


def _username(command: Command) -> str:
    name = command.fields.get("username")
    if not isinstance(name, str) or not name.strip():
        raise invalid_parameter("The username is blank")
    return name


def _subject(command: Command, body: dict[str, Any]) -> str:
    try:
        return name_of(command.fields.get("subject") or body.get("subject"))
    except SettingsError as error:
        raise invalid_parameter(str(error)) from None


def _json(command: Command) -> dict[str, Any]:
    if len(command.body) > _BODY_MAX:
        raise invalid_parameter(
            f"the body has {len(command.body)} bytes, but at most {_BODY_MAX} are allowed"
        )
    try:
        value = orjson.loads(command.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise invalid_parameter("the body must be a JSON object")
    return value


def _acl(user: AuthUser, policies: UserPolicies | None = None) -> dict[str, Any]:
    return {
        "subject": f"User:{user.name}",
        "policies": (policies or user.policies).to_json(),
    }


def listed(found: Iterable[dict[str, Any]], narrower: str) -> Answer:
    """Return an answer with a list as JSON, or with an empty body if it is empty; raise RequestError above 15 MiB.

    `narrower` names the fields that shorten the list. Call this in a thread, because 1,000 users with 20 entries each
    take 60 ms.
    """
    rows, size = [], 0
    with short_switch_interval():
        for each in found:
            rows.append(orjson.dumps(each))
            size += len(rows[-1]) + 1
            if size > _LIST_MAX:
                raise invalid_parameter(
                    f"the list has more than {_LIST_MAX} bytes; narrow it with {narrower}"
                )
        return Answer(body=b"[" + b",".join(rows) + b"]" if rows else b"")
