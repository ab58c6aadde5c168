"""Answers read ahead on the loop, many for one crossing between threads."""

import asyncio
from collections.abc import AsyncGenerator

from cometmq.client.results import RawPull
from cometmq.model.errors import CometError

# What is gathered at once: a caller that works with one such lot holds two.
AHEAD_PULLS = 256
AHEAD_BYTES = 8 << 20


class ReadAhead:
    """The next answers of a range, gathered while the caller works with those before them.

    Args:
        answers: where they come from.
    """

    def __init__(self, answers: AsyncGenerator[RawPull, None]) -> None:
        self._answers = answers
        self._gathering: asyncio.Task[tuple[list[RawPull], CometError | None]] | None = None

    async def take(self) -> tuple[list[RawPull], CometError | None]:
        """The next answers, none at the end, and the error that came behind them; gathers on meanwhile."""
        task = self._gathering or asyncio.ensure_future(self._gather())
        self._gathering = task
        pulls, error = await task
        if pulls and error is None:
            self._gathering = asyncio.ensure_future(self._gather())
        return pulls, error

    async def _gather(self) -> tuple[list[RawPull], CometError | None]:
        pulls: list[RawPull] = []
        size = 0
        try:
            async for pull in self._answers:
                pulls.append(pull)
                size += len(pull.body)
                if size >= AHEAD_BYTES or len(pulls) >= AHEAD_PULLS:
                    break
        except CometError as error:
            return pulls, error
        return pulls, None

    async def close(self) -> None:
        """Ask for no more."""
        if self._gathering is not None:
            self._gathering.cancel()
            # Gathering it takes its error, which nobody else will look at.
            await asyncio.gather(self._gathering, return_exceptions=True)
        await self._answers.aclose()
