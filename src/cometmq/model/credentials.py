"""Credentials: what somebody signs his requests with."""

import json
from dataclasses import dataclass, field

from cometmq.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and secret, as RocketMQ's SessionCredentials.

    Attributes:
        access_key: the user's name.
        secret_key: what requests are signed with; it is never sent, and stands in no text of this object.
        security_token: of a temporary access, sent with each request.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot sign.

        Raises:
            SettingsError: a key is empty or no text.
        """
        for name in ("access_key", "secret_key"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise SettingsError(f"credentials: {name} must be a text, and not empty")
        if self.security_token is not None and not isinstance(self.security_token, str):
            raise SettingsError("credentials: security_token must be a text or None")


def read_credentials(text: str, key: str) -> Credentials:
    """Credentials of a setting, `{"accessKey":"...","secretKey":"..."}`.

    Args:
        text: JSON.
        key: of the setting, for messages; they hold nothing of the text.

    Raises:
        SettingsError: it is no such object.
    """
    wanted = f'{key} must be {{"accessKey":"...","secretKey":"..."}}'
    try:
        values = json.loads(text)
        return Credentials(
            values["accessKey"], values["secretKey"], values.get("securityToken")
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SettingsError):
        raise SettingsError(wanted) from None
