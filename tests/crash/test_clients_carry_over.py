"""The master of a broker group is killed, hangs or becomes a slave, and the slave is promoted: clients go on, without an error.

They poll routes every 30 s, so all that is faster comes from what they notice themselves.
"""

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    StoredMessage,
)
from cometmq.admin import GroupConfig
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from tests.crash.test_role_changes import group as broker_group
from tests.crash.test_role_changes import promote
from tests.support import processes
from tests.support.frames import ask

TOPIC, QUEUES = "orders", 4
# Far below the 30 s of the next poll, and far above what an idle machine needs.
SECONDS_MAX = 12.0
Swap = Callable[[str, list[processes.Program]], None]

pytestmark = pytest.mark.timeout(240)


class Sends:
    """One producer that sends all the time, each message when the one before it is acknowledged."""

    def __init__(self, names: str, *, is_chosen: bool = False) -> None:
        """With `is_chosen`, all messages go to one queue, as those of one order do."""
        self.acknowledged: list[tuple[float, bytes]] = []
        self.errors: list[CometError] = []
        self._names = names
        self._queue = MessageQueue(TOPIC, "broker-a", 0) if is_chosen else None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        number = 0
        settings = ProducerSettings(send_timeout_ms=60_000)
        with Producer(self._names, group="writers", settings=settings) as producer:
            while not self._is_over.is_set():
                body = b"%d" % number
                try:
                    producer.send(Message(TOPIC, body), queue=self._queue)
                except CometError as error:
                    self.errors.append(error)
                else:
                    self.acknowledged.append((time.monotonic(), body))
                number += 1

    def __enter__(self) -> "Sends":
        self._thread.start()
        processes.wait_until(lambda: len(self.acknowledged) > 100, seconds=30, what="sends")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def first_after(self, moment: float) -> float:
        """Wait for the first acknowledgement after a moment; its distance in seconds."""
        found = processes.wait_until(
            lambda: [at for at, _ in self.acknowledged[-50_000:] if at > moment],
            seconds=60,
            what="an acknowledgement",
        )
        return found[0] - moment


@contextmanager
def group(folder: Path) -> Iterator[tuple[str, list[processes.Program]]]:
    """An ASYNC_MASTER with its slave; a slave serves no reads here, as is the default."""
    with broker_group(folder, "ASYNC_MASTER", QUEUES, defaultTopicQueueNums=QUEUES) as made:
        yield made


@contextmanager
def listed(names: str, broker: processes.Program) -> Iterator[list[float]]:
    """Note when the nameserver first lists a broker as the master, in monotonic seconds."""
    found: list[float] = []
    is_over = threading.Event()

    def look() -> None:
        while not found and not is_over.wait(0.01):
            if (
                f'0:"{broker.address}"'.encode()
                in ask(names, RequestCode.GET_BROKER_CLUSTER_INFO)[1]
            ):
                found.append(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def knows_group(address: str, group: str) -> bool:
    header, _ = ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
    return bool(header["code"] == 0)


def killed(names: str, both: list[processes.Program]) -> None:
    both[0].kill()
    promote(names, "--yes")


def stopped(names: str, both: list[processes.Program]) -> None:
    """A process that stands still for a while, as under a hypervisor or out of memory."""
    both[0].process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]
    promote(names, "--yes", "--force")


def exchanged(names: str, _both: list[processes.Program]) -> None:
    promote(names)


@pytest.mark.parametrize(
    ("swap", "is_chosen"),
    [(killed, False), (exchanged, False), (exchanged, True), (stopped, False)],
    ids=["killed", "exchanged", "exchanged-one-queue", "stopped"],
)
def test_sends_go_on_at_the_new_master_without_an_error(
    tmp_path: Path, swap: Swap, *, is_chosen: bool
):
    """A message for one queue does not wait, because later ones could overtake it; the sends after the exchange go on all the same."""
    with group(tmp_path) as (names, both):
        try:
            with Sends(names, is_chosen=is_chosen) as sends, listed(names, both[1]) as found:
                swap(names, both)
                sends.first_after(time.monotonic())
            times = [at for at, _ in sends.acknowledged]
            seconds, resumed = max(
                (after - at, after) for at, after in itertools.pairwise(times)
            )
            late = resumed - found[0]
            print(
                f"{swap.__name__}: {seconds:.2f} s without an acknowledgement, which came {late:.2f} s after the "
                "nameserver listed the new master"
            )
            assert is_chosen or not sends.errors
            assert late < SECONDS_MAX
        finally:
            if swap is stopped:
                both[0].process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]


@pytest.mark.parametrize("swap", [killed, exchanged])
@pytest.mark.parametrize("kind", ["pull", "orderly", "pop"])
def test_consumers_go_on_at_the_new_master(tmp_path: Path, swap: Swap, kind: str):
    got: dict[bytes, float] = {}

    def listen(message: StoredMessage) -> None:
        got.setdefault(message.body, time.monotonic())

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, orderly=kind == "orderly")
    with group(tmp_path) as (names, both):
        if kind == "pop":
            with Admin(names) as admin:
                admin.topics.set_request_mode(TOPIC, "billing", "POP", share_queues=8)
        with (
            PushConsumer(
                names,
                group="billing",
                listener=listen,
                subscriptions=[TOPIC],
                settings=settings,
            ),
            Sends(names) as sends,
        ):
            processes.wait_until(lambda: len(got) > 50, seconds=30, what="messages")
            swap(names, both)
            promoted = time.monotonic()
            sends.first_after(promoted)

            def goes_on() -> bool:
                new = {body for at, body in list(sends.acknowledged) if at > promoted}
                return bool(new & got.keys())

            processes.wait_until(
                goes_on, seconds=SECONDS_MAX, what="new messages at the consumer"
            )
            print(
                f"{kind}, {swap.__name__}: {time.monotonic() - promoted:.2f} s after the promotion"
            )
        assert not sends.errors


@pytest.mark.parametrize("swap", [killed, exchanged])
def test_a_call_that_fails_lets_the_next_ones_reach_the_new_master(tmp_path: Path, swap: Swap):
    """A simple consumer's pops and acknowledgements, and a pull consumer's commits."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    with (
        group(tmp_path) as (names, both),
        SimpleConsumer(names, group="popping", subscriptions=[TOPIC]) as popping,
        PullConsumer(names, group="pulling") as pulling,
    ):
        with Admin(names) as admin:
            admin.groups.create(GroupConfig("pulling"))

        errors: list[CometError] = []

        def use() -> bool:
            try:
                pulling.commit(queue, 1)
                found = popping.receive(wait_ms=500)
                popping.ack(found)
            except CometError as error:
                errors.append(error)
                return False
            return bool(found)

        with Sends(names) as sends:
            processes.wait_until(use, seconds=30, what="both at the old master")
            processes.wait_until(
                lambda: knows_group(both[1].address, "pulling"),
                seconds=30,
                what="a copied group",
            )
            swap(names, both)
            sends.first_after(time.monotonic())
            try:
                processes.wait_until(use, seconds=SECONDS_MAX, what="both at the new master")
            except TimeoutError:
                pytest.fail(f"{errors[-1]}")
        assert pulling.committed(queue) == 1
