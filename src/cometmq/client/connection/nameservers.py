"""The nameservers of a client: most requests go to one while it answers, or else to the next one.

All brokers should register with each of them, so that any of them can be used.
"""

import asyncio
import random
from collections.abc import Sequence

from cometmq.client.api.asking import first_answer
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError, NetError
from cometmq.net.channels import Channels


class Nameservers:
    """Sends requests to one nameserver that answers, or to all of them."""

    def __init__(
        self,
        addresses: Sequence[str],
        channels: Channels,
        *,
        timeout_ms: int,
        chance: random.Random,
    ) -> None:
        """Start with a random one of `addresses`, so that clients spread over them."""
        self.addresses = tuple(addresses)
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._chosen = chance.randrange(len(self.addresses))

    @property
    def current(self) -> str:
        """The address of the nameserver that the next `call` or `ask` tries first."""
        return self.addresses[self._chosen]

    async def call(self, command: Command) -> Command:
        """Query one nameserver after the other until one answers, possibly with an error code.

        Raises NetError if none answers, CodecError for a malformed answer, and ClientClosed. Several nameservers share the
        timeout of one request. After one has not answered, later requests begin with the one after it.
        """
        order = self.addresses[self._chosen :] + self.addresses[: self._chosen]
        try:
            return await first_answer(
                lambda address: self._channels.call(
                    address, command, timeout_ms=self._timeout_ms
                ),
                order,
                seconds=self._timeout_ms / 1000,
                failed=self._turn_from,
            )
        except NetError as failure:
            if len(order) > 1:
                failure.add_note(f"all nameservers were tried: {', '.join(self.addresses)}")
            raise

    def _turn_from(self, address: str) -> None:
        # Two failing calls must not turn away from it and back again.
        if self.current == address:
            self.turn_to_next()

    def turn_to_next(self) -> None:
        """Try the next nameserver, if there are several, first from the next request on."""
        self._chosen = (self._chosen + 1) % len(self.addresses)

    def turn_to(self, address: str) -> None:
        """Try the nameserver at this address first from the next request on; raise ValueError if it is not in `addresses`."""
        self._chosen = self.addresses.index(address)

    async def ask(self, command: Command) -> Command:
        """Send a request to one nameserver after the other until one answers; return the answer.

        Raises NetError if no nameserver answered, BrokerRefused if the answer is an error, CodecError if it is malformed,
        and ClientClosed.
        """
        answer = await self.call(command)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", self.current)
        return answer

    async def ask_all(self, command: Command) -> list[Command]:
        """Send a request to every nameserver concurrently, because they do not communicate; return a list of answers.

        The answers are in the order of `addresses`. All are queried; if some failed, NetError, BrokerRefused, CodecError
        or ClientClosed of the first of them in that order is raised.
        """
        answers = []
        for answer in (await self.ask_each(command)).values():
            if isinstance(answer, CometError):
                raise answer
            answers.append(answer)
        return answers

    async def ask_each(self, command: Command) -> dict[str, Command | CometError]:
        """Send a request to every nameserver concurrently; return the answers by address, with errors as values."""

        async def ask(address: str) -> Command | CometError:
            try:
                answer = await self._channels.call(
                    address, command, timeout_ms=self._timeout_ms
                )
            except CometError as error:
                return error
            if answer.code != ResponseCode.SUCCESS:
                return BrokerRefused(answer.code, answer.remark or "", address)
            return answer

        answers = await asyncio.gather(*map(ask, self.addresses))
        return dict(zip(self.addresses, answers, strict=True))
