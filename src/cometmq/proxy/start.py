"""Starts the gRPC proxy of a broker if a port is set for it; only then imports the packages that the proxy needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cometmq.broker.server import Broker
from cometmq.model.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.proxy.server import ProxyServer

# Top-level modules of the packages of the extra.
_EXTRA = ("jh2", "google")


@contextmanager
def needs_extra(what: str) -> Iterator[None]:
    """Turn the failure of an import, because a package of the extra `grpc` is not installed, into SettingsError.

    `what` begins its text.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise SettingsError(
            f"{what} needs a package that is not installed ({error.name}); "
            "install it: pip install 'cometmq[grpc]'"
        ) from None


async def start_proxy(broker: Broker, port: int | None = None) -> "ProxyServer | None":
    """Start the gRPC proxy of a started broker and return it; return None if no port is set.

    Args:
        broker: The broker.
        port: The port, 0 for any free one; None: that of the settings (grpcServerPort), of which 0 means no proxy.

    Raises:
        SettingsError: A package that the proxy needs is not installed.
        NetError: The port cannot be opened.
    """
    settings = broker.settings
    if port is None:
        if not settings.grpc_port:
            return None
        port = settings.grpc_port
    with needs_extra("the gRPC port (grpcServerPort, --grpc)"):
        from cometmq.proxy.local import start_local
    return await start_local(broker, port, settings.grpc_access_address)
