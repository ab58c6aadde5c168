"""Certificates for tests, made by OpenSSL: an authority, and what it signs."""

from pathlib import Path
from typing import Any

from tests.support.programs import run_program


def _openssl(*words: object) -> None:
    run_program("openssl", *words)


def authority(folder: Path, name: str = "ca") -> Path:
    """The certificate of a new authority; its key is beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    _openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-keyout", key, "-out", cert,
        "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    return cert


def server_keys(ca: Path, name: str = "server", **more: Any) -> dict[str, Any]:
    """The settings of a server that shows a new certificate; `more` goes to `signed`."""
    cert, key = signed(ca, name, **more)
    return {"tls.server.certPath": cert, "tls.server.keyPath": key}


def signed(
    ca: Path,
    name: str,
    *,
    host: str = "IP:127.0.0.1,DNS:localhost",
    days: int = 2,
    password: str = "",
) -> tuple[Path, Path]:
    """A certificate that an authority signed for a host, and its key."""
    cert, key, request = (ca.with_name(f"{name}.{end}") for end in ("pem", "key", "csr"))
    secret = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    _openssl(
        "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *secret, "-subj", f"/CN={name}",
        "-keyout", key, "-out", request, "-addext", f"subjectAltName={host}",
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca.with_suffix(".key"), "-CAcreateserial",
        "-days", days, "-copy_extensions", "copy", "-out", cert,
    )  # fmt: skip
    key.chmod(0o600)
    return cert, key
