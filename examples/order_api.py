"""A web service that takes orders and sends them on: FastAPI with one producer for its life.

Start a broker first (`cometmq up`), then `pip install fastapi uvicorn` and `uvicorn examples.order_api:app`. The
environment's NAMESRV_ADDR names the nameservers; without it they are sought on this machine.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from cometmq import AsyncProducer, ProducerSettings, PydanticCodec, Topic
from cometmq.errors import CometError


class Order(BaseModel):
    """The order that customers post and consumers of the topic get."""

    id: str
    cents: int


class Accepted(BaseModel):
    """The answer to a customer whose order was taken."""

    message_id: str


ORDERS = Topic("orders", PydanticCodec(Order))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """One producer for all requests, closed with the service."""
    async with AsyncProducer(settings=ProducerSettings(send_timeout_ms=2_000)) as producer:
        app.state.producer = producer
        yield


def producer_of(request: Request) -> AsyncProducer:
    """The service's producer."""
    producer: AsyncProducer = request.app.state.producer
    return producer


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def take_order(
    order: Order, producer: Annotated[AsyncProducer, Depends(producer_of)]
) -> Accepted:
    """Accept an order once a broker has it; 503 says why none has, and the customer may try again."""
    try:
        sent = await producer.send(ORDERS.message(order, tag="new", keys=order.id))
    except CometError as error:
        raise HTTPException(503, str(error)) from error
    return Accepted(message_id=sent.message_id)
