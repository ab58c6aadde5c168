"""Pull answers that are read ahead on the loop, so that one crossing between threads returns many."""

import asyncio
from collections.abc import AsyncGenerator

from cometmq.client.results import RawPull
from cometmq.model.errors import CometError

# Limits of one batch; while a caller works with a batch, a second one is in memory.
AHEAD_PULLS = 256
AHEAD_BYTES = 8 << 20


class ReadAhead:
    """Collects the next answers of a range while the caller works with the previous ones.

    Args:
        answers: Source of the answers.
    """

    def __init__(self, answers: AsyncGenerator[RawPull, None]) -> None:
        self._answers = answers
        self._gathering: asyncio.Task[tuple[list[RawPull], CometError | None]] | None = None

    async def take(self) -> tuple[list[RawPull], CometError | None]:
        """Return the next answers (none at the end) and the error that followed them; then continue collecting."""
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
        """Stop collecting."""
        if self._gathering is not None:
            self._gathering.cancel()
            # This also retrieves its error, which asyncio would otherwise report.
            await asyncio.gather(self._gathering, return_exceptions=True)
        await self._answers.aclose()
