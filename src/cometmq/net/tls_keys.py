"""TLS settings of brokers and nameservers, with the keys of TlsSystemConfig in RocketMQ 5.3.3.

Java reads system properties or `tls.properties`, we the usual settings and the file that `tls.config.file` names.
"""

from collections.abc import Iterable

from cometmq.codec.java_properties import decode_java_properties
from cometmq.model.errors import CodecError, SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import Layer, setting
from cometmq.model.tls import TlsSettings
from cometmq.net.tls import ClientCheck, ServerFiles, ServerTls, TlsMode, client_context

CONFIG_FILE = "tls.config.file"


@dataclass(frozen=True, slots=True)
class TlsKeys:
    """TLS settings of a server.

    Attributes:
        tls_mode: `disabled`, `permissive` (cleartext and TLS) or `enforcing`; differs: the default is `enforcing` if
            there is a certificate, otherwise `disabled`, and any other word is an error.
        tls_config_file: a file with these keys, as Java's `tls.properties`; differs: read only if named here.
        is_tls_test: a generated test certificate; differs: not supported, refused.
        client_check: whether clients must show certificates: `none`, `optional`, `require`.
        tls_cert_file: the server's certificate, PEM; reloaded within 5 s after a change.
        tls_key_file: the certificate's private key, PEM; must not be readable by everybody.
        tls_key_password: password of the private key; never shown, and not accepted as a flag.
        tls_trust_file: CA certificates that sign clients' certificates, PEM.
        is_client_verified: accepted without effect: requested client certificates are always verified.
        is_tls_client: whether outgoing connections (to nameservers; a slave's to its master) use TLS.
        tls_client_cert_file: the certificate for outgoing connections, PEM.
        tls_client_key_file: the private key of that certificate, PEM.
        tls_client_key_password: password of that private key.
        tls_client_trust_file: CA certificates that sign servers' certificates; by default the machine's.
        is_server_verified: whether to check the server's certificate and host name; differs: RocketMQ does not by default.
    """

    tls_mode: TlsMode | None = setting(None, key="tls.server.mode")
    tls_config_file: str | None = setting(None, key=CONFIG_FILE)
    is_tls_test: bool = setting(default=False, key="tls.test.mode.enable")
    client_check: ClientCheck = setting(ClientCheck.none, key="tls.server.need.client.auth")
    tls_cert_file: str | None = setting(None, key="tls.server.certPath")
    tls_key_file: str | None = setting(None, key="tls.server.keyPath")
    tls_key_password: str = setting("", key="tls.server.keyPassword", is_secret=True)
    tls_trust_file: str | None = setting(None, key="tls.server.trustCertPath")
    is_client_verified: bool = setting(default=True, key="tls.server.authClient")
    is_tls_client: bool = setting(default=False, key="tls.enable")
    tls_client_cert_file: str | None = setting(None, key="tls.client.certPath")
    tls_client_key_file: str | None = setting(None, key="tls.client.keyPath")
    tls_client_key_password: str = setting("", key="tls.client.keyPassword", is_secret=True)
    tls_client_trust_file: str | None = setting(None, key="tls.client.trustCertPath")
    is_server_verified: bool = setting(default=True, key="tls.client.authServer")

    @property
    def are_clients_certified(self) -> bool:
        """Whether every client of the server's own port must show a certificate; the settings must be valid."""
        return (
            self.client_check is ClientCheck.require and self.tls_mode is not TlsMode.permissive
        )

    def server_tls(self, protocols: tuple[str, ...] = ()) -> ServerTls | None:
        """Read the certificate and return the TLS state of a port (`ServerTls`), or None for cleartext only.

        `protocols` are offered by ALPN.

        Raises:
            SettingsError: The settings contradict each other, or a file cannot be used.
        """
        if self.is_tls_test:
            raise SettingsError(
                "tls.test.mode.enable=true: CometMQ creates no test certificate; create one (openssl req -x509 ...), and "
                "set tls.server.certPath and tls.server.keyPath"
            )
        has_one = bool(self.tls_cert_file or self.tls_key_file)
        mode = self.tls_mode or (TlsMode.enforcing if has_one else TlsMode.disabled)
        wants_clients = self.client_check is not ClientCheck.none
        if mode is TlsMode.disabled or (mode is TlsMode.permissive and not has_one):
            if wants_clients:
                raise SettingsError(
                    f"tls.server.need.client.auth={self.client_check.name} needs TLS: set "
                    "tls.server.certPath and tls.server.keyPath"
                )
            return None
        if not self.tls_cert_file or not self.tls_key_file:
            raise SettingsError(
                f"tls.server.mode={mode.name} needs a certificate and its key: set both tls.server.certPath and "
                "tls.server.keyPath"
            )
        files = ServerFiles(
            self.tls_cert_file, self.tls_key_file, self.tls_key_password or None,
            self.tls_trust_file, self.client_check, protocols,
        )  # fmt: skip
        return ServerTls(mode, files)

    def client_tls(self) -> TlsSettings | None:
        """Return the TLS settings of outgoing connections (None: cleartext); SettingsError if a key has no certificate."""
        if not self.is_tls_client:
            return None
        return TlsSettings(
            self.tls_client_trust_file, self.tls_client_cert_file, self.tls_client_key_file,
            self.tls_client_key_password or None, self.is_server_verified,
        )  # fmt: skip

    def check_client_files(self) -> None:
        """Raise SettingsError if a file for outgoing connections with TLS cannot be used."""
        tls = self.client_tls()
        if tls is not None:
            client_context(tls)


def tls_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return a list of one layer, read from the file that `tls.config.file` names in `layers`; empty if none is named.

    Raises:
        SettingsError: The file cannot be read or decoded.
    """
    values = {key: text.strip() for layer in layers for key, text in layer.values.items()}
    path = values.get(CONFIG_FILE)
    if not path:
        return []
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return [Layer(path, decode_java_properties(file.read()))]
    except OSError as error:
        raise SettingsError(f"{CONFIG_FILE}={path}: {error.strerror or error}") from None
    except CodecError as error:
        raise SettingsError(f"{CONFIG_FILE}={path}: {error}") from None
