"""Requests about users and their policies (Auth 2.0) to one broker, with codes from 3001 to 3010."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cometmq.client.api.asking import BrokerRequests
from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given

_SUBJECT = "User:"


class UserReport(NamedTuple):
    """A user as reported by a broker, without the password.

    Attributes:
        name: Name (access key).
        kind: "Super" or "Normal".
        status: "enable" or "disable".
    """

    name: str
    kind: str
    status: str


class UserApi(BrokerRequests):
    """Sends requests about users and policies to one broker; methods raise BrokerRefused, NetError and CodecError."""

    async def users(self, address: str) -> list[UserReport]:
        """Return the names, kinds and statuses of all users of a broker."""
        answer = await self._ask(address, RequestCode.AUTH_LIST_USER)
        return [
            UserReport(
                part.text("username"),
                part.text("userType", "Normal"),
                part.text("userStatus", "enable"),
            )
            for part in _objects(answer.body, f"the users of {address}")
        ]

    async def policies(self, address: str) -> dict[str, Sequence[Any]]:
        """Return the policies of every user that has any, by user name, as decoded JSON in RocketMQ's form."""
        answer = await self._ask(address, RequestCode.AUTH_LIST_ACL)
        return {
            part.text("subject").removeprefix(_SUBJECT): part.raw().get("policies") or []
            for part in _objects(answer.body, f"the policies of {address}")
        }

    async def create(self, address: str, name: str, password: str, kind: str) -> None:
        """Create a user at one broker."""
        values = {"username": name, "password": password, "userType": kind}
        await self._user(RequestCode.AUTH_CREATE_USER, address, name, values)

    async def update(self, address: str, name: str, values: dict[str, str]) -> None:
        """Change a user's password, userType or userStatus at one broker."""
        values = {"username": name, **values}
        await self._user(RequestCode.AUTH_UPDATE_USER, address, name, values)

    async def delete(self, address: str, name: str) -> None:
        """Delete a user and its policies at one broker."""
        command = Command(RequestCode.AUTH_DELETE_USER, fields={"username": name})
        await self._asks.ask(address, command)

    async def put_policies(self, address: str, name: str, policies: Sequence[Any]) -> None:
        """Add entries of policies (as from `policies`) to a user; in a policy, they replace those of the same resource."""
        body = fastjson.dumps({"subject": _SUBJECT + name, "policies": list(policies)})
        fields = {"subject": _SUBJECT + name}
        await self._asks.ask(
            address, Command(RequestCode.AUTH_UPDATE_ACL, fields=fields, body=body)
        )

    async def delete_entry(self, address: str, name: str, resource: str) -> None:
        """Delete the entry of a resource from a user's Custom policy at one broker."""
        fields = {"subject": _SUBJECT + name, "policyType": "Custom", "resource": resource}
        await self._asks.ask(address, Command(RequestCode.AUTH_DELETE_ACL, fields=fields))

    async def _user(
        self, code: RequestCode, address: str, name: str, values: dict[str, str]
    ) -> None:
        body = fastjson.dumps(values)
        await self._asks.ask(address, Command(code, fields={"username": name}, body=body))


def _objects(content: bytes, what: str) -> list[JsonObject]:
    value = fastjson.loads(content) if content else []
    if not isinstance(value, list):
        raise CodecError(f"{what}: it must be a list, not {as_given(value, 60)}")
    return [JsonObject(each, what) for each in value]
