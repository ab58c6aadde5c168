"""Settings of Auth 2.0: the keys of AuthConfig of RocketMQ 5.3.3."""

import json

from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting
from cometmq.net.tls_keys import TlsKeys

# What these name in RocketMQ is what is here; another class of it would be one of Java.
_PROVIDERS = {
    "authenticationProvider": "DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "LocalAuthenticationMetadataProvider",
    "authorizationProvider": "DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "LocalAuthorizationMetadataProvider",
}
# Threads and caches that are not here.
AUTH_KEYS_WITHOUT_EFFECT = frozenset(
    """
    authenticationStrategy authorizationStrategy userCacheMaxNum userCacheExpiredSecond userCacheRefreshSecond
    aclCacheMaxNum aclCacheExpiredSecond aclCacheRefreshSecond statefulAuthenticationCacheMaxNum
    statefulAuthenticationCacheExpiredSecond statefulAuthorizationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond
    """.split()  # noqa: SIM905  One to a line would be a page.
)


@dataclass(frozen=True, slots=True)
class AuthKeys(TlsKeys):
    """Users and policies.

    Attributes:
        is_authentication_enabled: Auth 2.0 of RocketMQ 5.3: requests are signed by users.
        is_authorization_enabled: and asked about, by the policies of users; refused without the former. Without it a user may
            do everything but what is an administrator's.
        authentication_provider: RocketMQ's own name, or nothing; another is refused.
        authentication_metadata_provider: the same.
        authorization_provider: the same.
        authorization_metadata_provider: the same.
        authentication_whitelist: codes of requests that nobody signs; of administrators' from this machine only.
        authorization_whitelist: codes that need a known user and no right.
        init_user: `{"username":"...","password":"..."}`, made Super at the start; never shown, and not taken as a flag.
        auth_path: the folder of `auth.json`, users and policies; without it `config` in a broker's store. A nameserver needs it.
        is_migrated: users are made of the accounts of ACL 1.0 at the start, where they are not there yet.
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
        """Look at what is said of Auth 2.0.

        Raises:
            SettingsError: it cannot be used.
        """
        if self.is_authorization_enabled and not self.is_authentication_enabled:
            raise SettingsError(
                "authorizationEnabled=true without authenticationEnabled=true: whoever wants rights would only have to name "
                "who has them; set both"
            )
        given = (
            self.authentication_provider, self.authentication_metadata_provider, self.authorization_provider,
            self.authorization_metadata_provider,
        )  # fmt: skip
        for (key, name), text in zip(_PROVIDERS.items(), given, strict=True):
            if text and text.rpartition(".")[2] != name:
                raise SettingsError(
                    f"{key}={text}: a class of Java; take the key out, or write {name}"
                )
        self.open_codes()
        self.spared_codes()
        self.first_user()

    def open_codes(self) -> frozenset[int]:
        """Codes of `authenticationWhitelist`."""
        return _codes(self.authentication_whitelist, "authenticationWhitelist")

    def spared_codes(self) -> frozenset[int]:
        """Codes of `authorizationWhitelist`."""
        return _codes(self.authorization_whitelist, "authorizationWhitelist")

    def first_user(self) -> tuple[str, str] | None:
        """Name and password of the user that is made at the start.

        Raises:
            SettingsError: `initAuthenticationUser` cannot be read; the message holds nothing of it.
        """
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
    if not all(part.isdecimal() for part in parts):
        raise SettingsError(f"{key}={text}: codes of requests are wanted, with commas between")
    return frozenset(map(int, parts))
