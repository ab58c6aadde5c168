"""The table of requests of a server: for each code what answers it, who may ask, and what that touches.

The rules of a server are declared in one file (broker.requests, nameserver.requests); handlers name the codes that
they answer; `RequestTable` joins both, and refuses to be made where one side lacks the other. Rights are asked here
and nowhere else, before the handler runs, for single requests and for batches. What needs no asking stands in the
table as it is, so that a plain send is not looked at twice (docs/design/0044-one-table-of-requests.md).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import KnownSigner, TurnReads
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.frozen import dataclass
from cometmq.model.rights import (
    ANY_NAME,
    EVERYBODY,
    Access,
    Action,
    Asker,
    Resource,
    Right,
    topic_access,
)
from cometmq.net.answer import Answer, answer_to_error

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

Handler = Callable[[Command, "Peer"], Awaitable[Answer | None] | Answer | None]
AskedHandler = Callable[[Command, "Peer", Asker], Awaitable[Answer | None] | Answer | None]
# What one connection asks in a turn of the loop.
Read = tuple["Peer", list[RawCommand]]
# Sends bytes to a connection.
Write = Callable[[bytes], None]
Find = Callable[[Mapping[str, str], bytes], Iterable[Access]]


class Finder(NamedTuple):
    """Finds what a request touches.

    Attributes:
        words: what that is, for people.
        find: gives it from the fields and the body.
    """

    words: str
    find: Find


class WithAsker(NamedTuple):
    """A handler that needs to know who asks.

    Attributes:
        handler: Called with the asker of this very request. The connection does not know it: the requests of a pipeline
            may be signed by different users, and a coroutine runs when later ones have been checked.
    """

    handler: AskedHandler


@runtime_checkable
class BatchHandler(Protocol):
    """Handles all commands of a turn that carry its codes."""

    def handle(self, reads: "list[Read]") -> None:
        """Handle all requests, and give the answers to `write` of their peers."""
        ...

    def written(self) -> None:
        """Called once the answers are written."""
        ...


class Intake(Protocol):
    """Takes requests from a connection's bytes, before they are commands: those that a batch handler knows at a glance.

    Attributes:
        judged: the codes of what a gate may judge (`ByteGate`): it shows nothing else to it.
        count: how many it has taken that are not done.
        codes: of what it takes; it is used where no gate asks about any of them.
    """

    @property
    def judged(self) -> frozenset[int]: ...  # noqa: D102

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def codes(self) -> frozenset[int]: ...  # noqa: D102

    def take(
        self,
        data: bytes,
        position: int,
        peer: "Peer",
        count_max: int,
        signer: KnownSigner | None = None,
        /,
    ) -> int:
        """Take requests from a frame on, up to one that it does not know at a glance; gives the position behind them.

        At most so many; with a signer those that he passes. What it takes it may keep the bytes of.
        """
        ...

    def take_reads(self, turn: TurnReads["Peer"], count_max: int, size_min: int, /) -> None:
        """Take the requests of those who brought one each in a turn, up to the first who brought anything else.

        At most so many, and no more than that only so many bytes wait. It is asked while it says of the first of
        them that he `sends_alone`.
        """
        ...

    def answer_ahead(self, data: bytes, write: Write) -> int:
        """Have the answer written to what a connection brought, which is not in a turn; gives the size of it, 0: nothing was done.

        It is asked once it has said of this connection that it `asks_alone`.
        """
        ...

    def handle(self) -> bool:
        """Do all that were taken, and write their answers; True where `written` is to be called."""
        ...

    def written(self) -> None:
        """Called once the answers are written."""
        ...

    def show(self, taker: "FrameHandler") -> None:
        """Show what this intake does not know to this one, too."""
        ...


@runtime_checkable
class IntakeHandler(Protocol):
    """A batch handler that may have an intake."""

    intake: Intake | None


@runtime_checkable
class FrameHandler(Protocol):
    """A batch handler that can do requests as whole frames, when they are shown to it by an intake."""

    def take_frames(
        self, data: bytes, position: int, peer: "Peer", count_max: int
    ) -> tuple[int, int]:
        """Do and answer requests from a frame on, at most so many, up to one that it does not know at a glance.

        Gives the position behind them, and how many there were.
        """
        ...


def refuse_all(commands: list[RawCommand], peer: "Peer", error: BaseException) -> None:
    """Answer requests with an error."""
    answer = answer_to_error(error, commands[0])
    for command in commands:
        peer.answer(command, answer)


# What one part of a server answers, by code.
AnyHandler = Handler | WithAsker | BatchHandler
Answers = Mapping[int, AnyHandler]


@dataclass(frozen=True, slots=True)
class RequestRule:
    """A row of the table, without what runs.

    Attributes:
        code: of the request.
        right: whose request it is.
        finders: of what it touches; each finds none, one or several.
        is_batch: whether all that came in one turn are taken at once.
        is_asked_again: its handler asks about the topic of the record that it finds (`may_of`), so that
            the request may name none.
    """

    code: int
    right: Right
    finders: tuple[Finder, ...]
    is_batch: bool = False
    is_asked_again: bool = False

    def accesses(self, fields: Mapping[str, str], body: bytes) -> list[Access]:
        """The accesses of a request; where there are none, only a rule for anybody lets it pass.

        Raises:
            CodecError: its body cannot be read.
        """
        if len(self.finders) == 1:  # Of a send.
            return list(self.finders[0].find(fields, body))
        return [access for finder in self.finders for access in finder.find(fields, body)]


class Gate(Protocol):
    """Decides whether a request may pass."""

    def is_asked(self, rule: RequestRule) -> bool:
        """Whether any request of a code could be refused."""
        ...

    def check(self, rule: RequestRule, request: Command | RawCommand, peer: "Peer") -> Asker:
        """Let a request pass and return who asks, or refuse it.

        Raises:
            RequestError: NO_PERMISSION: it may not.
        """
        ...


class StrangerGate(Protocol):
    """Decides what is taken from whom nobody knows yet."""

    def refusal_of_large(self, fields: Mapping[str, str], peer: "Peer") -> str | None:
        """The reason to refuse a large frame with these header fields; None: it is taken."""
        ...


@runtime_checkable
class ByteGate(Protocol):
    """A gate that can say which of an intake's requests may pass, before they are commands."""

    def signer_of(self, peer: "Peer") -> KnownSigner | None:
        """The user who must have signed what is taken from a connection; None: nothing is taken."""
        ...

    def may_send(
        self, rules: Sequence[RequestRule], topic: bytes, signer: KnownSigner, peer: "Peer"
    ) -> bool:
        """Whether a signer of this connection may send to a topic by each of the rules; then it is one of his topics."""
        ...


class OwnMachineGate:
    """The gate without access control: administration comes from this machine only."""

    def __init__(
        self,
        words: Callable[[RequestRule, "Peer"], str],
        may: Callable[[RequestRule, "Peer"], bool] = lambda _rule, _peer: False,
    ) -> None:
        """`words` say why somebody else is refused, unless `may` knows him."""
        self._words = words
        self._may = may

    def is_asked(self, rule: RequestRule) -> bool:
        """Only administration is."""
        return rule.right is Right.ADMINISTRATOR

    def check(self, rule: RequestRule, _request: Command | RawCommand, peer: "Peer") -> Asker:
        """Look where the peer sits."""
        if (
            rule.right is Right.ADMINISTRATOR
            and not peer.is_on_own_machine
            and not self._may(rule, peer)
        ):
            raise RequestError(ResponseCode.NO_PERMISSION, self._words(rule, peer))
        return EVERYBODY


class RequestTable:
    """The requests that a server answers in its role; another role is another table.

    Attributes:
        rules: by code.
        handlers: what answers single requests, by code; behind the gate where it is asked.
        batches: likewise for what is taken a turn at once.
        intake: takes requests of a batch handler as bytes, where no gate asks about any of them, or one that reads them.
    """

    def __init__(
        self, rules: Iterable[RequestRule], answers: Iterable[Answers], gate: Gate
    ) -> None:
        """Each rule needs one of `answers`, and each answer a rule."""
        self.rules = {int(rule.code): rule for rule in rules}
        self.handlers: dict[int, Handler] = {}
        self.batches: dict[int, BatchHandler] = {}
        self.intake: Intake | None = None
        behind: dict[BatchHandler, BatchHandler] = {}
        asked: set[BatchHandler] = set()
        for part in answers:
            for code, answer in part.items():
                assert code in self.rules, f"no rule for {code}"
                rule, is_asked = self.rules[code], gate.is_asked(self.rules[code])
                is_new = code not in self.handlers and code not in self.batches
                assert is_new, f"two handlers for {code}"
                is_batch = isinstance(answer, BatchHandler)
                assert rule.is_batch == is_batch, f"{code} as a batch?"
                if isinstance(answer, BatchHandler):
                    # Codes of one handler stay one batch: it stores them with one write.
                    gated = behind.setdefault(answer, _GatedBatch(answer, self.rules, gate))
                    self.batches[int(code)] = gated if is_asked else answer
                    if is_asked:
                        asked.add(answer)
                else:
                    self.handlers[int(code)] = _gated(answer, rule, gate if is_asked else None)
        missing = self.rules.keys() - self.handlers.keys() - self.batches.keys()
        assert not missing, f"nobody answers {sorted(missing)}"
        self._find_intake(behind.keys(), asked, gate)

    def _find_intake(
        self, batches: Iterable[BatchHandler], asked: set[BatchHandler], gate: Gate
    ) -> None:
        """The intake of the batch handlers, of which the gate is asked about some."""
        for batch in batches:
            if not isinstance(batch, IntakeHandler) or batch.intake is None:
                continue
            if batch not in asked:
                self.intake = self._ungated(batch.intake, gate)
            elif isinstance(gate, ByteGate):
                judged = [self.rules[code] for code in sorted(batch.intake.judged)]
                self.intake = _GatedIntake(batch.intake, judged, gate)
        for batch in set(batches) - asked:
            if isinstance(batch, FrameHandler) and self.intake is not None:
                self.intake.show(batch)

    def _ungated(self, intake: Intake, gate: Gate) -> Intake | None:
        """An intake that takes nothing about which the gate is asked."""
        rules = [self.rules[code] for code in intake.codes if code in self.rules]
        return None if any(map(gate.is_asked, rules)) else intake


def _gated(handler: Handler | WithAsker, rule: RequestRule, gate: Gate | None) -> Handler:
    """Put a handler behind the gate, if requests of its rule are asked, and give it the asker that it needs."""
    if isinstance(handler, WithAsker):
        with_asker = handler.handler

        def name_asker(
            command: Command, peer: "Peer"
        ) -> Awaitable[Answer | None] | Answer | None:
            asker = EVERYBODY if gate is None else gate.check(rule, command, peer)
            return with_asker(command, peer, asker)

        return name_asker
    if gate is None:
        return handler

    def pass_gate(command: Command, peer: "Peer") -> Awaitable[Answer | None] | Answer | None:
        gate.check(rule, command, peer)
        return handler(command, peer)

    return pass_gate


class _GatedBatch:
    """A batch handler that sees only what may pass."""

    def __init__(
        self, batch: BatchHandler, rules: Mapping[int, RequestRule], gate: Gate
    ) -> None:
        self._batch = batch
        self._rules = rules
        self._gate = gate

    def handle(self, reads: list[Read]) -> None:
        """Refuse who may not, and hand the others on."""
        allowed: list[Read] = []
        for peer, commands in reads:
            passed: list[RawCommand] = []
            for command in commands:
                try:
                    self._gate.check(self._rules[command[0]], command, peer)
                except Exception as error:  # noqa: BLE001  One request's error is that request's answer.
                    peer.answer(command, answer_to_error(error, command))
                else:
                    passed.append(command)
            if passed:
                allowed.append((peer, passed))
        if allowed:
            self._batch.handle(allowed)

    def written(self) -> None:
        """Tell the handler behind the gate that its answers are written."""
        self._batch.written()


class _GatedIntake:
    """An intake that takes only what may pass."""

    def __init__(self, intake: Intake, rules: list[RequestRule], gate: ByteGate) -> None:
        self.judged = self.codes = intake.judged
        self.handle = intake.handle
        self.show = intake.show
        self.written = intake.written
        self._intake = intake
        self._rules = rules
        self._gate = gate

    @property
    def count(self) -> int:
        """The number of requests taken that are not done."""
        return self._intake.count

    def take_reads(self, _turn: TurnReads["Peer"], _count_max: int, _size_min: int) -> None:
        """Take nothing: each of them has a signer."""

    def answer_ahead(self, _data: bytes, _write: Write) -> int:
        """Answer nothing: who may ask what is known of commands."""
        return 0

    def take(
        self,
        data: bytes,
        position: int,
        peer: "Peer",
        count_max: int,
        _signer: KnownSigner | None = None,
    ) -> int:
        """See `Intake`: what the gate's signer passes, and each topic of his is asked about once."""
        signer = self._gate.signer_of(peer)
        if signer is None:
            return position
        last = self._intake.count + count_max
        while True:
            count = last - self._intake.count
            position = self._intake.take(data, position, peer, count, signer)
            topic = signer.asked
            if topic is None or not self._gate.may_send(self._rules, topic, signer, peer):
                return position


def may_of(
    asker: Asker, *actions: Action, shows_messages: bool = False
) -> Callable[[str], bool]:
    """Return a test whether an asker may do any of this to a topic, for a handler that finds a record by its place."""
    if asker is EVERYBODY:
        return any_topic
    wanted = frozenset(actions)
    return lambda name: asker.may(
        topic_access(name, wanted, shows_messages=shows_messages), Right.READER
    )


def any_topic(_name: str) -> bool:
    """Allow any topic: what `may_of` gives for `EVERYBODY`."""
    return True


# --- what requests touch


def topic(field: str, *actions: Action, shows_messages: bool = False) -> Finder:
    """The topic that a field names; a group's retry topic belongs to the group.

    Where the field is missing nothing is found: the handler refuses a request that needs it.

    Args:
        field: of the header.
        actions: any of them is enough.
        shows_messages: see `Access`.
    """
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> tuple[Access, ...]:
        name = fields.get(field)
        if not name:
            return ()
        return (topic_access(name, wanted, shows_messages=shows_messages),)

    return Finder(said("topic", f"`{field}`", actions), find)


def group(field: str, *actions: Action) -> Finder:
    """The group that a field names."""
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> tuple[Access, ...]:
        name = fields.get(field)
        return (Access(Resource.GROUP, name, wanted),) if name else ()

    return Finder(said("group", f"`{field}`", actions), find)


def cluster(*actions: Action) -> Finder:
    """The cluster, whatever the request says."""
    access = Access(Resource.CLUSTER, ANY_NAME, frozenset(actions))
    return Finder(said("cluster", "", actions), lambda _fields, _body: (access,))


def all_topics(*actions: Action) -> Finder:
    """Every topic, whatever the request says."""
    access = Access(Resource.TOPIC, ANY_NAME, frozenset(actions))
    return Finder(said("every topic", "", actions), lambda _fields, _body: (access,))


def named_or_cluster(named: Finder, *actions: Action) -> Finder:
    """A finder of what a field names, and of the whole cluster where it names nothing."""
    whole = cluster(*actions)

    def find(fields: Mapping[str, str], body: bytes) -> Iterable[Access]:
        return [*named.find(fields, body)] or whole.find(fields, body)

    return Finder(f"{named.words}; without it {whole.words}", find)


def said(kind: str, where: str, actions: Iterable[Action]) -> str:
    """The words of a finder."""
    may = " or ".join(action.value for action in actions)
    return f"{kind} {where}: {may}" if where else f"{kind}: {may}"
