"""Credentials for signing requests."""

import json
from dataclasses import dataclass, field

from cometmq.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Credentials:
    """The name and secret of a user, like RocketMQ's SessionCredentials.

    Attributes:
        access_key: Name of the user.
        secret_key: Secret that signs requests; never sent, and not part of the repr.
        security_token: Token of a temporary access, sent with each request.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise SettingsError if a key is empty, or a value is no string (the token may be None)."""
        for name in ("access_key", "secret_key"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise SettingsError(f"credentials: {name} must be a non-empty text")
        if self.security_token is not None and not isinstance(self.security_token, str):
            raise SettingsError("credentials: security_token must be a text or None")


def read_credentials(text: str, key: str) -> Credentials:
    """Parse credentials from a setting's JSON, `{"accessKey":"...","secretKey":"..."}`, or raise SettingsError.

    Errors contain the setting's `key`, but never its text.
    """
    wanted = f'{key} must be {{"accessKey":"...","secretKey":"..."}}'
    try:
        values = json.loads(text)
        return Credentials(
            values["accessKey"], values["secretKey"], values.get("securityToken")
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SettingsError):
        raise SettingsError(wanted) from None
