"""The certificates that servers show to clients: until when they are valid."""

from collections.abc import Iterable, Mapping

from cometmq.client.api.asking import side_by_side
from cometmq.client.settings import ClientSettings, environment_tls
from cometmq.net.tls import served_certificate_end

_SECONDS = 5.0


async def certificate_ends(
    settings: ClientSettings,
    nameservers: Iterable[str],
    brokers: Mapping[str, Mapping[str, str]],
) -> dict[str, int]:
    """Return when the certificates of servers expire or expired, ms since 1970, by address.

    A server that takes cleartext only would see a handshake as a broken request. So only those are asked that use TLS:
    all of them if this client does, otherwise brokers whose settings name a certificate.

    Args:
        settings: Settings of this client.
        nameservers: Addresses of the nameservers.
        brokers: Settings of the brokers by address.
    """
    is_own = (settings.tls or environment_tls()) is not None
    asked = [*nameservers] if is_own else []
    asked += [address for address, values in brokers.items() if is_own or _uses_tls(values)]
    ends = await side_by_side(
        lambda address: served_certificate_end(address, seconds=_SECONDS), asked
    )
    return {
        address: end for address, end in zip(asked, ends, strict=True) if isinstance(end, int)
    }


def _uses_tls(values: Mapping[str, str]) -> bool:
    return (
        bool(values.get("tls.server.certPath")) and values.get("tls.server.mode") != "disabled"
    )
