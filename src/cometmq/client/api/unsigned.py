"""Unsigned requests, to find out whether servers require signatures."""

from collections.abc import Iterable

from cometmq.client.api.asking import side_by_side
from cometmq.client.settings import ClientSettings, environment_tls
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.names import DEFAULT_TOPIC
from cometmq.net.channels import Channels

_TIMEOUT_MS = 3_000
NO_PERMISSION = ResponseCode.NO_PERMISSION


async def unsigned_answers(
    clock: Clock, settings: ClientSettings, nameservers: Iterable[str], brokers: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return the addresses of the nameservers that accept an unsigned request, and of the brokers that refuse one.

    Servers that do not answer, or answer with another error, are in neither list.
    """
    channels = Channels(clock, tls=settings.tls or environment_tls())

    async def code_of(address: str, command: Command) -> int:
        answer = await channels.call(address, command, timeout_ms=_TIMEOUT_MS)
        # Java's ACL 1.0 has no error code of its own.
        return NO_PERMISSION if "AclException" in (answer.remark or "") else answer.code

    async def those_with(code: int, addresses: Iterable[str], command: Command) -> list[str]:
        asked = [*addresses]
        codes = await side_by_side(lambda each: code_of(each, command), asked)
        return [address for address, said in zip(asked, codes, strict=True) if said == code]

    a_queue = {"topic": DEFAULT_TOPIC, "queueId": "0"}
    try:
        return (
            await those_with(0, nameservers, Command(RequestCode.GET_BROKER_CLUSTER_INFO)),
            await those_with(
                NO_PERMISSION, brokers, Command(RequestCode.GET_MAX_OFFSET, fields=a_queue)
            ),
        )
    finally:
        await channels.close()
