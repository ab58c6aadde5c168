"""A worker for jobs: some fail and come again, some are to be done later, and some never work.

Start a broker first (`cometmq up`) and `pip install pydantic`, then `python -m examples.worker [NAMESERVER]`. It ends when its four jobs have.
A job that fails is given again by the broker after 10 s, 30 s, 1 min …; what fails too often is kept in %DLQ%workers.
"""

import sys
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from cometmq import (
    Admin,
    ConsumeFrom,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    PydanticCodec,
    Received,
    SimpleConsumer,
    Topic,
)

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
RETRIES = 1


@dataclass
class Job:
    """A job as the topic's messages carry it."""

    name: str
    failures: int


JOBS = Topic("jobs", PydanticCodec(Job))


class Worker:
    """Does jobs; its state is what it has seen of them."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.ended: list[str] = []
        self.all_ended = threading.Event()

    def work(self, job: Received[Job]) -> None:
        """Do a job; an exception has it given again later."""
        name = job.value.name
        self.tries[name] += 1
        is_last = job.message.reconsume_times >= RETRIES
        if job.value.failures >= self.tries[name]:
            if is_last:
                self._end(f"{name}: given up after {self.tries[name]} tries")
            raise RuntimeError(f"{name} has failed")
        self._end(f"{name}: done at try {self.tries[name]}")

    def _end(self, said: str) -> None:
        self.ended.append(said)
        if len(self.ended) == 4:
            self.all_ended.set()


def main() -> None:
    """Give four jobs and do them."""
    with Admin(NAMESERVER) as admin:
        admin.topics.create(JOBS.name)
    with Producer(NAMESERVER) as producer:
        producer.send(JOBS.message(Job("later", 0), deliver=timedelta(seconds=2)))
        producer.send(JOBS.message(Job("now", 0)))
        producer.send(JOBS.message(Job("flaky", 1)))
        producer.send(JOBS.message(Job("hopeless", 99)))
    worker = Worker()
    settings = PushConsumerSettings(
        concurrency=4,
        retries_max=RETRIES,
        consume_from=ConsumeFrom.FIRST,
        close_timeout_ms=5_000,
    )
    with PushConsumer(
        NAMESERVER,
        group="workers",
        listener=JOBS.listener(worker.work),
        subscriptions=[JOBS.name],
        settings=settings,
    ):
        worker.all_ended.wait(120)
    print(*sorted(worker.ended), sep="\n")
    # What nobody could do waits there for somebody to look at it.
    with SimpleConsumer(
        NAMESERVER, group="ops", subscriptions=["%DLQ%workers"]
    ) as dead_letters:
        for message in dead_letters.receive(wait_ms=10_000):
            print(f"dead letter: {JOBS.received(message).value.name}")
            dead_letters.ack(message)


if __name__ == "__main__":
    main()
