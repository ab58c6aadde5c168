"""Requests that store messages anew and share a write: ends of transactions, and messages that consumers send back.

Each request is prepared on its own: the message that it names is read and checked. Requests that were read together, and
whose preparation needs no wait, are stored with one write. A request that must wait, for example for the disk, is stored
alone, so that it delays no other.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Generic

from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.rights import EVERYBODY, Asker
from cometmq.net.answer import Answer, answer_to_error
from cometmq.net.answering import empty
from cometmq.net.peer import Peer
from cometmq.net.requests import AskedBatchHandler, CheckAsker, Read
from cometmq.steps.prepared import Item, Store, stored_alone
from cometmq.steps.steps import Steps, at_once

# Reads and checks the message that a request names. Until they end, the steps change nothing and may be stopped.
Prepare = Callable[[RawCommand, Asker], Steps[Item]]


class SharedWrite(AskedBatchHandler, Generic[Item]):
    """The handler of a code whose requests share a write if they were read together."""

    def __init__(
        self,
        prepare: Prepare[Item],
        store: Store[Item],
        encode: Callable[[Item], Answer] = empty,
    ) -> None:
        """`encode` returns the answer to a request that was stored; by default SUCCESS without content."""
        self._prepare = prepare
        self._store = store
        self._encode = encode

    def handle(self, reads: list[Read]) -> None:
        """Handle requests of a code that no gate checks; see `handle_asked`."""
        self.handle_asked(reads, lambda _command, _peer: EVERYBODY)

    def handle_asked(self, reads: list[Read], check: CheckAsker) -> None:
        """Store the messages of these requests; answer each request now, or when the write is confirmed.

        When the time of the read batch is up, the rest is left to a later one, unchecked.
        """
        asked = [(peer, command) for peer, commands in reads for command in commands]
        dispatcher = asked[0][0].dispatcher
        began = now = dispatcher.now()
        requests: list[tuple[Peer, RawCommand]] = []
        items: list[Item] = []
        late: list[tuple[Peer, RawCommand, Asker]] = []
        waiting = iter(asked)
        for each in waiting:
            if now >= dispatcher.ends and each is not asked[0]:
                _put_back([each, *waiting])
                break
            peer, command = each
            try:
                asker = check(command, peer)
                dispatcher.check_room(peer)
                item = at_once(self._prepare(command, asker))
            except Exception as error:  # noqa: BLE001  As net.dispatcher: other requests are not lost.
                dispatcher.answer(command, peer, began, answer_to_error(error, command[0]))
            else:
                if item is None:
                    late.append((peer, command, asker))
                else:
                    requests.append(each)
                    items.append(item)
            now = dispatcher.now()
        if items:
            ended = partial(self._answer, requests, items, began)
            dispatcher.run_steps(self._store(items), requests, ended)
        for peer, command, asker in late:
            dispatcher.run(partial(self._handle_alone, asker), Command(*command), peer)

    def _handle_alone(self, asker: Asker, command: Command, _peer: Peer) -> Steps[Answer]:
        item = yield from stored_alone(self._prepare(command, asker), self._store)
        return self._encode(item)

    def _answer(
        self,
        requests: Sequence[tuple[Peer, RawCommand]],
        items: Sequence[Item],
        began: float,
        _result: None,
        error: BaseException | None,
    ) -> None:
        """Answer requests that were stored together; `error` is why those that stored something are not confirmed."""
        for (peer, command), item in zip(requests, items, strict=True):
            failure = item.error or (error if error is not None and item.is_stored else None)
            if failure is None:
                answer = self._encode(item)
            else:
                answer = answer_to_error(failure, command[0])
            peer.dispatcher.answer(command, peer, began, answer)

    def written(self) -> None:
        """Do nothing: the write has notified consumers and the flusher."""


def _put_back(asked: Sequence[tuple[Peer, RawCommand]]) -> None:
    for peer, some in groupby(asked, itemgetter(0)):
        peer.put_back([command for _, command in some])
