"""Settings of Auth 2.0, with the keys of AuthConfig in RocketMQ 5.3.3."""

import json

from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.numbers import whole_number
from cometmq.model.settings import setting
from cometmq.net.tls_keys import TlsKeys

# The only supported value of each key; any other would be a Java class.
_PROVIDERS = {
    "authenticationProvider": "DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "LocalAuthenticationMetadataProvider",
    "authorizationProvider": "DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "LocalAuthorizationMetadataProvider",
}


@dataclass(frozen=True, slots=True)
class AuthKeys(TlsKeys):
    """Settings of users and policies, in addition to those of TLS (`TlsKeys`).

    Attributes:
        is_authentication_enabled: Auth 2.0 of RocketMQ 5.3: users sign their requests.
        is_authorization_enabled: users' policies are checked; refused without the former. Without it a user may do everything
            except an administrator's and a broker's requests.
        authentication_provider: empty or RocketMQ's own name; another value is refused.
        authentication_metadata_provider: empty or RocketMQ's own name; another value is refused.
        authorization_provider: empty or RocketMQ's own name; another value is refused.
        authorization_metadata_provider: empty or RocketMQ's own name; another value is refused.
        authentication_whitelist: codes that need no signature; administrators' and brokers' ones only from this machine.
        authorization_whitelist: codes of requests that need a known user but no right.
        init_user: `{"username":"...","password":"..."}`, made Super at the start; never shown, and not accepted as a flag.
        auth_path: folder of `auth.json`; default: `config` in a broker's store. Required for a nameserver.
        is_migrated: at the start, create users from the accounts of ACL 1.0 unless they exist already.
    """

    is_authentication_enabled: bool = setting(default=False, key="authenticationEnabled")
    is_authorization_enabled: bool = setting(default=False, key="authorizationEnabled")
    authentication_provider: str = setting("")
    authentication_metadata_provider: str = setting("")
    authorization_provider: str = setting("")
    authorization_metadata_provider: str = setting("")
    authentication_whitelist: str = setting("")
    authorization_whitelist: str = setting("")
    init_user: str = setting("", key="initAuthenticationUser", is_secret=True)
    auth_path: str | None = setting(None, key="authConfigPath")
    is_migrated: bool = setting(default=False, key="migrateAuthFromV1Enabled")

    def check_auth(self) -> None:
        """Raise SettingsError for authorization without authentication, a bad provider, whitelist or initial user."""
        if self.is_authorization_enabled and not self.is_authentication_enabled:
            raise SettingsError(
                "authorizationEnabled=true needs authenticationEnabled=true: otherwise a client could claim to be "
                "any user without a signature; set both"
            )
        given = (
            self.authentication_provider, self.authentication_metadata_provider, self.authorization_provider,
            self.authorization_metadata_provider,
        )  # fmt: skip
        for (key, name), text in zip(_PROVIDERS.items(), given, strict=True):
            if text and text.rpartition(".")[2] != name:
                raise SettingsError(
                    f"{key}={text} is a Java class that is not supported; remove the setting, or use {name}"
                )
        self.open_codes()
        self.spared_codes()
        self.first_user()

    def open_codes(self) -> frozenset[int]:
        """Return the request codes in `authenticationWhitelist`. Raises SettingsError if it has anything else."""
        return _codes(self.authentication_whitelist, "authenticationWhitelist")

    def spared_codes(self) -> frozenset[int]:
        """Return the request codes in `authorizationWhitelist`. Raises SettingsError if it has anything else."""
        return _codes(self.authorization_whitelist, "authorizationWhitelist")

    def first_user(self) -> tuple[str, str] | None:
        """Return name and password of the initial user, or None. Raises SettingsError, which does not quote it, if malformed."""
        if not self.init_user:
            return None
        try:
            values = json.loads(self.init_user)
            name, password = values["username"], values["password"]
        except (ValueError, TypeError, KeyError, RecursionError):
            name = password = None
        if not (isinstance(name, str) and isinstance(password, str) and name and password):
            raise SettingsError(
                'initAuthenticationUser must be {"username":"...","password":"..."}'
            )
        return name, password


def _codes(text: str, key: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if any(whole_number(part) is None for part in parts):
        raise SettingsError(f"{key}={text}: it must be request codes separated by commas")
    return frozenset(map(int, parts))
