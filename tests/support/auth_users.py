"""Servers with Auth 2.0 for tests: the settings, the bodies of requests about users, and signed requests of raw peers."""

import json
from collections.abc import Mapping
from typing import Any

from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.credentials import Credentials
from tests.support.accounts import CANARY

ROOT = Credentials("root", f"{CANARY}-root")
INNER = Credentials("inner", f"{CANARY}-inner")


def auth_settings(
    root: Credentials = ROOT, inner: Credentials = INNER, /, **more: object
) -> dict[str, object]:
    """Settings of a server with Auth 2.0, these Super users, and more."""
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps(
            {"username": root.access_key, "password": root.secret_key}
        ),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": inner.access_key, "secretKey": inner.secret_key}
        ),
        **more,
    }


def user(credentials: Credentials, **more: object) -> bytes:
    """The body of a request that makes or changes a user."""
    return json.dumps({"password": credentials.secret_key, **more}).encode()


def policies(*allowed: tuple[str, str]) -> bytes:
    """The body of a request that allows a user resources, each with actions separated by commas."""
    entries = [
        {"resource": resource, "actions": actions.split(","), "decision": "Allow"}
        for resource, actions in allowed
    ]
    return json.dumps({"policies": [{"policyType": "Custom", "entries": entries}]}).encode()


def signed(
    who: Credentials | None,
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> dict[str, Any]:
    """The fields of a request as a user signs them; None: unsigned."""
    plain = dict(fields or {})
    if who is None:
        return plain
    return Signer(who).signed(Command(code, fields=plain, body=body)).fields
