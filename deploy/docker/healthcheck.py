"""Exits with 0 if the program of this container is well, else with 1 and the reason: the image's HEALTHCHECK.

It asks the first of these that listens: the page of a broker (ready) or of a nameserver that serves metrics (alive), the
dashboard's, or a nameserver's port. A program on other ports, or a dashboard with a certificate, needs a check of its own.
"""

import socket
import sys
import urllib.error
import urllib.request

PAGES = (
    "http://127.0.0.1:5557/readyz",
    "http://127.0.0.1:8082/healthz",
)
NAMESERVER = ("127.0.0.1", 9876)
SECONDS = 4


def fault() -> str | None:
    """Return why the program is not well, or None."""
    for page in PAGES:
        try:
            with urllib.request.urlopen(page, timeout=SECONDS):  # noqa: S310  Its addresses are above.
                return None
        except urllib.error.HTTPError as error:
            return f"{page}: {error.code} {error.read(1000).decode(errors='replace').strip()}"
        except OSError as error:
            if not isinstance(getattr(error, "reason", error), ConnectionRefusedError):
                return f"{page}: {error}"
    try:
        socket.create_connection(NAMESERVER, timeout=SECONDS).close()
    except OSError as error:
        return f"no program listens: {error}"
    return None


if __name__ == "__main__":
    sys.exit(fault())
