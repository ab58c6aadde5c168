"""Programs as users write them: a web service, a worker, orders in a database, a typed topic."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from cometmq import AsyncPullConsumer, ConsumeFrom, PullConsumerSettings
from cometmq.embedded import Embedded
from examples.order_api import ORDERS, Order, app, lifespan
from tests.support.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
# Retries after 1 s in place of 10, and a broker that asks soon about transactions without an end.
QUICK: dict[str, str | int | bool] = {
    "messageDelayLevel": "1s " * 18,
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 500,
}


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with Embedded(settings=QUICK) as made:
        yield made.nameserver


def run(name: str, *arguments: object, status: int = 0) -> list[str]:
    program = (sys.executable, "-m", f"examples.{name}", *arguments)
    return run_program(*program, status=status, seconds=90, cwd=ROOT).stdout.splitlines()


@asynccontextmanager
async def web_client() -> AsyncIterator[httpx.AsyncClient]:
    """The service in this process, from its start to its end."""
    async with (
        lifespan(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client,
    ):
        yield client


async def test_a_order_api_accepts_what_a_broker_has_and_says_why_not(names, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", names)
    async with web_client() as client:
        accepted = await client.post("/orders", json={"id": "o-1", "cents": 500})
        assert accepted.status_code == 202
        assert (await client.post("/orders", json={"id": "o-2"})).status_code == 422
    settings = PullConsumerSettings(consume_from=ConsumeFrom.FIRST)
    reading = AsyncPullConsumer(
        names, group="web", subscriptions=[ORDERS.name], settings=settings
    )
    async with reading as reader:
        [message] = await reader.receive(wait_ms=20_000)
    assert message.message_id == accepted.json()["message_id"]
    assert ORDERS.received(message).value == Order(id="o-1", cents=500)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    async with web_client() as client:
        refused = await client.post("/orders", json={"id": "o-3", "cents": 1})
    assert refused.status_code == 503
    assert "127.0.0.1:1" in refused.json()["detail"]


def test_a_worker_does_jobs_at_once_later_again_and_never(names):
    assert run("worker", names) == [
        "flaky: done at try 2",
        "hopeless: given up after 2 tries",
        "later: done at try 1",
        "now: done at try 1",
        "dead letter: hopeless",
    ]


def test_an_order_is_in_the_database_and_in_the_topic_or_in_neither(names, tmp_path):
    database = tmp_path / "shop.db"
    assert run("booked_orders", database, names, "--die", status=1) == []
    assert run("booked_orders", database, names) == [
        "o-2 is not booked: CHECK constraint failed: cents > 0",
        "consumers see o-1 and o-3",
    ]


def test_a_typed_topic_keeps_the_order_of_each_customer(names):
    assert run("typed_topic", names) == [f"customer-{n}: [1, 2, 3, 4]" for n in range(5)]
