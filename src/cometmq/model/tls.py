"""The TLS settings of a client."""

from dataclasses import dataclass, field

from cometmq.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS towards nameservers and brokers.

    Attributes:
        ca_file: who signs the servers' certificates, PEM; None: whom this machine trusts.
        cert_file: the client's own certificate, PEM, for servers that ask for one.
        key_file: its key; None: it is in `cert_file`.
        key_password: of the key.
        check_server: whether the server's certificate and its host name are checked; without that whoever is on the
            way reads and changes everything.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_server: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            SettingsError: a key without a certificate, or a value that is no text.
        """
        for name in ("ca_file", "cert_file", "key_file", "key_password"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise SettingsError(f"TLS: {name} must be a text, and not empty, or None")
        if self.key_file is not None and self.cert_file is None:
            raise SettingsError("TLS: key_file without cert_file")
