"""Settings of TLS that brokers and nameservers share: the keys of TlsSystemConfig of RocketMQ 5.3.3.

Java reads them as system properties or from `tls.properties`; here they stand in the configuration file, or in the file that
`tls.config.file` names.
"""

from collections.abc import Iterable

from cometmq.codec.java_properties import decode_java_properties
from cometmq.model.errors import CodecError, SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import Layer, setting
from cometmq.model.tls import TlsSettings
from cometmq.net.tls import ClientCheck, ServerFiles, ServerTls, TlsMode

CONFIG_FILE = "tls.config.file"


@dataclass(frozen=True, slots=True)
class TlsKeys:
    """TLS of a server.

    Attributes:
        tls_mode: `disabled`, `permissive` (plain and TLS) or `enforcing`; differs: without it `enforcing` where there is a
            certificate, else `disabled`, and what is neither of these words is an error.
        tls_config_file: a file with these keys, as Java's `tls.properties`; differs: only where it is named.
        is_tls_test: a certificate made for the occasion; differs: refused, there is none.
        client_check: whether clients show certificates: `none`, `optional`, `require`.
        tls_cert_file: the certificate, PEM; taken anew within 5 s when it changes.
        tls_key_file: its key, PEM, readable by its owner alone.
        tls_key_password: of the key; never shown, and not taken as a flag.
        tls_trust_file: who signs the clients' certificates.
        is_client_verified: read, and of no effect: a certificate that is asked for is verified.
        is_tls_client: its own connections (to nameservers; a slave's to its master) speak TLS.
        tls_client_cert_file: the certificate that it shows there.
        tls_client_key_file: its key.
        tls_client_key_password: of that key.
        tls_client_trust_file: who signs the servers' certificates; without it whom the machine trusts.
        is_server_verified: whether the server's certificate and host name are checked; differs: RocketMQ does not by default.
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
        """Whether each connection to this server shows a certificate."""
        return (
            self.client_check is ClientCheck.require and self.tls_mode is not TlsMode.permissive
        )

    def server_tls(self) -> ServerTls | None:
        """The TLS settings of the port; None: plain only.

        Raises:
            SettingsError: it cannot be as it is said.
        """
        if self.is_tls_test:
            raise SettingsError(
                "tls.test.mode.enable=true: no certificate is made for tests; make one (openssl req -x509 ...) and name it in "
                "tls.server.certPath and tls.server.keyPath"
            )
        has_one = bool(self.tls_cert_file or self.tls_key_file)
        mode = self.tls_mode or (TlsMode.enforcing if has_one else TlsMode.disabled)
        wants_clients = self.client_check is not ClientCheck.none
        if mode is TlsMode.disabled or (mode is TlsMode.permissive and not has_one):
            if wants_clients:
                raise SettingsError(
                    f"tls.server.need.client.auth={self.client_check.name} without TLS: name a certificate in "
                    "tls.server.certPath and tls.server.keyPath"
                )
            return None
        if not self.tls_cert_file or not self.tls_key_file:
            raise SettingsError(
                f"tls.server.mode={mode.name} needs a certificate and its key: name both, in tls.server.certPath and "
                "tls.server.keyPath"
            )
        files = ServerFiles(
            self.tls_cert_file, self.tls_key_file, self.tls_key_password or None,
            self.tls_trust_file, self.client_check,
        )  # fmt: skip
        return ServerTls(mode, files)

    def client_tls(self) -> TlsSettings | None:
        """The TLS settings of own connections to others; None: plain.

        Raises:
            SettingsError: it cannot be as it is said.
        """
        if not self.is_tls_client:
            return None
        return TlsSettings(
            self.tls_client_trust_file, self.tls_client_cert_file, self.tls_client_key_file,
            self.tls_client_key_password or None, self.is_server_verified,
        )  # fmt: skip


def tls_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Settings from the file that `tls.config.file` names; weaker than what names it.

    Raises:
        SettingsError: it cannot be read.
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
