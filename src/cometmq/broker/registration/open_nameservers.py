"""Warns if a broker requires signatures but one of its nameservers does not, so that anybody can register a broker there."""

import logging
from collections.abc import Sequence

from cometmq.broker.registration.nameserver_calls import NameserverCalls
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError

_log = logging.getLogger(__name__)
_TIMEOUT_MS = 3_000


async def warn_of_open_nameservers(
    nameservers: Sequence[str], unsigned_calls: NameserverCalls
) -> None:
    """Send each nameserver an unsigned request, and log a warning for each that answers it with success."""
    for nameserver in nameservers:
        try:
            answer = await unsigned_calls.call(
                nameserver, RequestCode.GET_BROKER_CLUSTER_INFO, {}, b"", timeout_ms=_TIMEOUT_MS
            )
        except CometError:
            continue  # The registration reports it.
        if answer.code == ResponseCode.SUCCESS:
            _log.warning(
                "this broker requires signatures, but nameserver %s does not: anyone who reaches it can register a broker "
                "that gets messages meant for others; set aclEnable=true or authenticationEnabled=true there, too, "
                "or let only trusted brokers and clients reach it",
                nameserver,
            )
