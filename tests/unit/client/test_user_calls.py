"""Functions of users that raise what coroutines and futures take for something else."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.client.user_calls import call_user


@pytest.mark.parametrize("error", [StopIteration(1), GeneratorExit()])
async def test_what_would_end_a_coroutine_is_an_error_of_the_function(error):
    def here() -> None:
        raise error

    async def later() -> None:
        await asyncio.sleep(0)
        raise error

    for function in (here, later):
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match=type(error).__name__):
                await call_user(function)


async def test_a_call_that_is_closed_ends():
    async def waits() -> None:
        await asyncio.sleep(60)

    call = call_user(waits)
    call.send(None)
    call.close()  # RuntimeError if it went on.
    with pytest.raises(RuntimeError, match="cannot reuse"):
        call.send(None)
