"""The life of every client class: the answers to each order of calls are the same for all, and nothing is left of a client."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Iterator

import pytest

from cometmq import AsyncAdmin, Message
from cometmq.client.consumer.settings import (
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
)
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.settings import ClientSettings, ProducerSettings
from cometmq.errors import ClientClosed, CometError
from tests.support.client_lives import (
    CLASSES,
    SECONDS_MAX,
    TOPIC,
    Broken,
    break_start,
    left_of,
    make,
    small_cluster,
    use,
)
from tests.support.public_names import public_names

SETTINGS: dict[str, type[ClientSettings]] = {
    "Producer": ProducerSettings,
    "EncodedProducer": ProducerSettings,
    "PushConsumer": PushConsumerSettings,
    "PullConsumer": PullConsumerSettings,
    "SimpleConsumer": SimpleConsumerSettings,
    "QueueReader": PullConsumerSettings,
}
each_class = pytest.mark.parametrize("name", CLASSES)


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with small_cluster() as nameserver:
        yield nameserver


def test_the_table_has_every_client_class():
    made = [each for name, each in public_names().items() if name.startswith("Async")]
    found = {each.__name__ for each in made if issubclass(each, AsyncClient)}
    assert found == {f"Async{name}" for name in CLASSES}


@each_class
async def test_one_life_of_an_asyncio_client(names, name):
    one = make(name, names)
    before = f"the Async{name} .*is not running; use it inside `async with`, or call start"
    with pytest.raises(ClientClosed, match=before):
        await use(one, name)
    await one.close()  # Nothing was started.
    async with asyncio.timeout(SECONDS_MAX):
        await one.start()
        await one.start()
        await use(one, name)
        await asyncio.gather(one.close(), one.close())
        await one.close()
    assert await left_of(one) == []
    after = f"the Async{name} .*was closed.*; create a new Async{name}$"
    for call in (one.start, lambda: use(one, name)):
        with pytest.raises(ClientClosed, match=after):
            await call()
    assert await left_of(one) == []


@each_class
def test_one_life_of_a_blocking_client_has_its_own_name(names, name):
    one = make(name, names, prefix="")
    call = CLASSES[name][1]
    with pytest.raises(
        ClientClosed, match=f"the {name} .*is not running; use it inside `with`"
    ):
        call(one)
    one.close()  # Nothing was started.
    with one:
        one.start()
        call(one)
    one.close()
    for again in (one.start, lambda: call(one)):
        with pytest.raises(
            ClientClosed, match=f"the {name} .*was closed.*; create a new {name}$"
        ):
            again()


async def after_turns(work: Awaitable[None], turns: int) -> bool:
    """Cancel `work` after so many turns of the loop; return whether it was over before."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    is_over = task.done()
    task.cancel()
    await asyncio.wait([task], timeout=SECONDS_MAX)
    return is_over


TURNS = (0, 1, 2, 3, 5, 8, 13, 21, 34)


@each_class
async def test_a_start_that_is_cancelled_anywhere_leaves_nothing_and_can_be_tried_again(
    names, name
):
    for turns in TURNS:
        one = make(name, names)
        if not await after_turns(one.start(), turns):
            assert await left_of(one) == [], turns
            await one.start()
        await use(one, name)
        await one.close()
        assert await left_of(one) == [], turns


@each_class
async def test_a_close_that_is_cut_off_anywhere_is_finished_by_the_next(names, name):
    """Also one that was cut off twice."""
    for turns in TURNS:
        one = make(name, names)
        await one.start()
        await use(one, name)
        await after_turns(one.close(), turns)
        if turns:  # One that is cancelled before its first step does nothing.
            with pytest.raises(ClientClosed):
                await use(one, name)
        await after_turns(one.close(), 1)
        async with asyncio.timeout(SECONDS_MAX):
            await one.close()
        assert await left_of(one) == [], turns


async def test_a_member_whose_close_was_cut_off_gives_its_queues_to_others_at_once(names):
    for name in ("PushConsumer", "PullConsumer"):
        one = make(name, names)
        await one.start()
        async with AsyncAdmin(names) as admin:
            await after_turns(one.close(), 2)
            await one.close()
            seen = await admin.groups.connections(one.group)
            assert one.client_id not in str(seen)


@each_class
async def test_a_start_that_fails_leaves_nothing_and_can_be_tried_again(
    names, name, monkeypatch
):
    """It fails as its last step, when all parts are there."""
    one = make(name, names)
    break_start(one, monkeypatch)
    for _ in range(2):
        with pytest.raises(Broken):
            async with one:
                pytest.fail("it has not started")
        assert await left_of(one) == []
    monkeypatch.undo()
    async with one:
        await use(one, name)
    assert await left_of(one) == []


async def test_telemetry_that_is_not_installed_fails_the_start_and_leaves_nothing(
    names, monkeypatch
):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "cometmq.client.tracing.telemetry", raising=False)
    for name in ("Producer", "PushConsumer"):
        one = make(name, names, settings=SETTINGS[name](telemetry=True, trace=True))
        with pytest.raises(CometError, match="OpenTelemetry"):
            await one.start()
        assert await left_of(one) == []


@each_class
async def test_a_client_without_a_nameserver_says_where_it_is_missing_and_closes(name):
    one = make(name, "127.0.0.1:1")
    said = ""
    async with asyncio.timeout(SECONDS_MAX):
        try:
            await one.start()
            await use(one, name)
        except CometError as error:
            said = str(error)
        await one.close()
    # Consumers whose queues are shared out wait for them.
    assert "127.0.0.1:1" in said or name in ("PushConsumer", "PullConsumer")
    assert await left_of(one) == []


async def test_calls_that_wait_when_their_client_closes_end_with_an_error_of_ours(names):
    """A request whose reply never comes, a receive, a send whose topic is looked for."""
    producer, simple = make("Producer", names), make("SimpleConsumer", names)
    await producer.start()
    await simple.start()
    asked = asyncio.ensure_future(producer.request(Message(TOPIC, b"?"), timeout_ms=120_000))
    received = asyncio.ensure_future(simple.receive(1, wait_ms=120_000))
    for _ in range(1000):
        await asyncio.sleep(0.01)
        if producer._requests._replies and simple._instance.channels.open_addresses():
            break
    found = [asyncio.ensure_future(producer.queues(f"none_{each}")) for each in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(SECONDS_MAX):
        await producer.close()
        await simple.close()
        ended = await asyncio.gather(asked, received, *found, return_exceptions=True)
    assert isinstance(ended[0], ClientClosed)
    assert all(isinstance(each, CometError | list) for each in ended), ended
    assert await left_of(producer) == await left_of(simple) == []


@pytest.mark.parametrize("prefix", ["", "Async"])
def test_clients_that_were_made_before_a_fork_are_different_ones_in_each_process(names, prefix):
    """A global of a module under `gunicorn --preload`: two members with one id would consume the same queues."""
    one = make("Producer", names, prefix=prefix, settings=ProducerSettings(instance_name="web"))

    def run() -> str:
        if not prefix:
            with one:
                sent = one.send(Message(TOPIC, b"x"))
            return f"{one.client_id} {sent.message_id}"

        async def send() -> str:
            async with one:
                sent = await one.send(Message(TOPIC, b"x"))
            return f"{one.client_id} {sent.message_id}"

        return asyncio.run(send())

    said = []
    for _ in range(2):
        theirs, ours = os.pipe()
        if not (pid := os.fork()):
            status = 1
            try:
                os.write(ours, run().encode())
                status = 0
            finally:
                os._exit(status)
        os.close(ours)
        assert os.waitpid(pid, 0)[1] == 0
        said.append(os.read(theirs, 1000).decode())
        os.close(theirs)
    said.append(run())
    ids = [each.split() for each in said]
    assert len({each[0] for each in ids}) == 3, said
    assert len({each[1][:24] for each in ids}) == 3, said
