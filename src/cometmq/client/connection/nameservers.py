"""The nameservers of a client: one is kept while it answers, the next is taken when it does not.

They know nothing of each other and all brokers register with each of them, so any will do.
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
    """Requests to whichever nameserver answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        channels: Channels,
        *,
        timeout_ms: int,
        chance: random.Random,
    ) -> None:
        """Begin with any of `addresses`, so that clients spread over them."""
        self.addresses = tuple(addresses)
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._chosen = chance.randrange(len(self.addresses))

    @property
    def current(self) -> str:
        """The address that is asked first."""
        return self.addresses[self._chosen]

    async def call(self, command: Command) -> Command:
        """Ask one nameserver after the other until one answers; the answer may be a refusal.

        All have the time of one request together: one that hangs takes a part of it.

        Raises:
            NetError: none answered; the last one's reason.
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
                failure.add_note(f"asked all nameservers: {', '.join(self.addresses)}")
            raise

    def _turn_from(self, address: str) -> None:
        # Another call may have turned away from it meanwhile: two must not turn back to it.
        if self.current == address:
            self.turn_to_next()

    def turn_to_next(self) -> None:
        """Ask another one first from now on."""
        self._chosen = (self._chosen + 1) % len(self.addresses)

    def turn_to(self, address: str) -> None:
        """Ask the nameserver at this address first from now on."""
        self._chosen = self.addresses.index(address)

    async def ask(self, command: Command) -> Command:
        """Send a request to a nameserver; a refusal is raised.

        Raises:
            NetError: none answered.
            BrokerRefused: the answer is an error.
        """
        answer = await self.call(command)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", self.current)
        return answer

    async def ask_all(self, command: Command) -> list[Command]:
        """Ask every nameserver side by side, since they know nothing of each other; return the answers in their order.

        Each is asked, even if another one fails or hangs.

        Raises:
            NetError, BrokerRefused, CodecError: of the first one in their order that did not do it.
        """
        answers = []
        for answer in (await self.ask_each(command)).values():
            if isinstance(answer, CometError):
                raise answer
            answers.append(answer)
        return answers

    async def ask_each(self, command: Command) -> dict[str, Command | CometError]:
        """Ask every nameserver side by side; the answers by address, an error in its place."""

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
