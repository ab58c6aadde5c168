"""The TLS settings of a client."""

from dataclasses import dataclass, field

from cometmq.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings for connections to nameservers and brokers.

    Attributes:
        ca_file: CA certificates that sign servers' certificates, PEM; None uses those that the machine trusts.
        cert_file: The client's own certificate, PEM, for servers that ask for one.
        key_file: Private key of `cert_file`; None if that file contains it.
        key_password: Password of the private key.
        check_server: Whether to check the server's certificate and host name; False allows interception.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_server: bool = True

    def __post_init__(self) -> None:
        """Raise SettingsError for a key file without certificate file, or an empty or non-string name or password."""
        for name in ("ca_file", "cert_file", "key_file", "key_password"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise SettingsError(f"TLS: {name} must be a non-empty text or None")
        if self.key_file is not None and self.cert_file is None:
            raise SettingsError("TLS: key_file is set without cert_file; set both")
