"""The request table of a server: for each code the handler, the required right and the touched resources.

Each server declares its rules in one file (broker.requests, nameserver.requests), and handlers name the codes that they
answer. `RequestTable` joins both and fails if a code lacks either. A gate checks the sender's rights before a
handler runs, and handlers check them for what they find later, such as the topics of records (`may_of`). Handlers of
codes that no gate checks mostly have no wrapper (docs/design/0044).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from cometmq.codec.fields import text_of
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import KnownSigner, TurnReads
from cometmq.model.codes import ResponseCode, request_name
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
from cometmq.net.audit import audited, described
from cometmq.process.audit_log import note
from cometmq.steps.steps import Steps

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

# What a handler returns: an answer, steps that wait and return one, or None if the request is held and answered later.
Outcome = Answer | Steps[Answer] | Steps[Answer | None] | None
Handler = Callable[[Command, "Peer"], Outcome]
AskedHandler = Callable[[Command, "Peer", Asker], Outcome]
# Actions of requests that change something.
CHANGES = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})
# The requests of one connection in a read batch.
Read = tuple["Peer", list[RawCommand]]
# Returns the sender of an allowed request (EVERYBODY if no gate checks the code); raises as `Gate.check` for others.
CheckAsker = Callable[[RawCommand, "Peer"], Asker]
# Sends bytes to a connection.
Write = Callable[[bytes], None]
Find = Callable[[Mapping[str, str], bytes], Iterable[Access]]


class Finder(NamedTuple):
    """Finds the resources that a request touches.

    Attributes:
        words: Description of the resources for the documentation.
        find: Returns the accesses, from the header fields and the body.
        actions: Actions of these accesses; one of them is what the request does.
    """

    words: str
    find: Find
    actions: frozenset[Action]


class WithAsker(NamedTuple):
    """A handler that needs to know who sent the request.

    Attributes:
        handler: Called with the command, its connection, and who sent it (EVERYBODY if no gate checks the code). The
            connection cannot tell: its requests may be signed by different users, and later ones checked meanwhile.
    """

    handler: AskedHandler


@runtime_checkable
class BatchHandler(Protocol):
    """Handles the requests of many connections with its codes together, except what a fast path took or a gate refused."""

    def handle(self, reads: "list[Read]") -> None:
        """Handle the given requests; write answers to the peers now or, for example after replication, later."""
        ...

    def written(self) -> None:
        """Run follow-up work after `handle`, when the answers that it gave at once have been written."""
        ...


@runtime_checkable
class AskedBatchHandler(BatchHandler, Protocol):
    """A batch handler that needs the sender of each request; its `handle` is for codes that no gate checks."""

    def handle_asked(self, reads: list[Read], check: CheckAsker) -> None:
        """Handle the given requests, as `handle` does, and call `check` for each, once it is not left to a later batch."""
        ...


class Intake(Protocol):
    """A fast path: accepts simple requests (sends, pulls, acknowledgements) as bytes, before they are decoded.

    Attributes:
        judged: Codes that a gate may check (`ByteGate`); behind a gate only these are accepted.
        count: Number of requests accepted since the last `handle`.
        passed_over: Frames that `take` skipped before the position that it returned; the caller must handle them.
        codes: Codes that it accepts itself. It is used without checks only if no gate checks any of them.
    """

    @property
    def judged(self) -> frozenset[int]: ...  # noqa: D102

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def codes(self) -> frozenset[int]: ...  # noqa: D102

    @property
    def passed_over(self) -> list[bytes]: ...  # noqa: D102

    def take(
        self,
        data: bytes,
        position: int,
        peer: "Peer",
        count_max: int,
        signer: KnownSigner | None = None,
        /,
    ) -> int:
        """Accept or answer up to `count_max` requests from `position` on; return the position after them.

        With a `signer`, only requests that it signed, to topics that it may use, are accepted. The intake may keep
        references to `data`.
        """
        ...

    def take_reads(self, turn: TurnReads["Peer"], count_max: int, size_min: int, /) -> None:
        """Accept sends of peers that delivered one each; stop at a peer with anything else or without `sends_alone`.

        Accepts at most `count_max`, and none once fewer than `size_min` bytes wait.
        """
        ...

    def answer_ahead(self, data: bytes, write: Write) -> int:
        """Answer a read if it is one pull that finds messages; return their size in bytes, or 0 if nothing was done.

        Called outside of `take` only after the intake has set `asks_alone` of this connection.
        """
        ...

    def handle(self) -> bool:
        """Process the accepted sends, answering them now or later; return whether to call `written` afterwards."""
        ...

    def written(self) -> None:
        """Run follow-up work after `handle`, when the answers that it gave at once have been written."""
        ...

    def show(self, taker: "FrameHandler") -> None:
        """Register a handler for requests that this fast path does not accept; it gets none if sends must be signed."""
        ...


@runtime_checkable
class IntakeHandler(Protocol):
    """A batch handler that may have an intake (fast path)."""

    intake: Intake | None


@runtime_checkable
class FrameHandler(Protocol):
    """A batch handler that can process whole frames offered by an intake."""

    def take_frames(
        self, data: bytes, position: int, peer: "Peer", count_max: int
    ) -> tuple[int, int]:
        """Process and answer up to `count_max` frames from `position` on, up to the first one that is not simple.

        Returns the position after them and their number.
        """
        ...


def refuse_all(commands: list[RawCommand], peer: "Peer", error: BaseException) -> None:
    """Answer commands of a connection, at least one, with the same error; one-way commands get no answer."""
    answer = answer_to_error(error, commands[0][0])
    for command in commands:
        peer.answer(command, answer)


# The handlers of one part of a server, by request code.
AnyHandler = Handler | WithAsker | BatchHandler
Answers = Mapping[int, AnyHandler]


@dataclass(frozen=True, slots=True)
class RequestRule:
    """A row of the request table, without its handler.

    Attributes:
        right: Right that the sender needs.
        finders: Find the touched resources; each finder finds none, one or several.
        is_batch: Whether a batch handler handles the requests.
        is_asked_again: Whether the handler checks what it finds later, such as the topic of a record (`may_of`).
    """

    code: int
    right: Right
    finders: tuple[Finder, ...]
    is_batch: bool = False
    is_asked_again: bool = False

    @property
    def is_audited(self) -> bool:
        """Whether the audit log has each request with this code: administrators change something with it."""
        return self.right is Right.ADMINISTRATOR and any(
            finder.actions & CHANGES for finder in self.finders
        )

    def accesses(self, fields: Mapping[str, str], body: bytes) -> list[Access]:
        """Return a list of the accesses (resources and actions) that the finders find in a request.

        Raises:
            CodecError: The body, if a finder reads it, cannot be decoded.
        """
        if len(self.finders) == 1:  # The case of a send.
            return list(self.finders[0].find(fields, body))
        return [access for finder in self.finders for access in finder.find(fields, body)]


class GateRefusal(RequestError):
    """The error for a request that a gate refuses.

    Attributes:
        user: Name of the sender; None if unknown.
        why: The reason, without the request and its sender.
    """

    def __init__(self, remark: str, *, user: str | None = None, why: str | None = None) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.user = user
        self.why = why or remark


class Gate(Protocol):
    """Decides whether a request is allowed."""

    def is_asked(self, rule: RequestRule) -> bool:
        """Return whether requests with the code of `rule` must be checked; False only if none could be refused."""
        ...

    def check(self, rule: RequestRule, request: Command | RawCommand, peer: "Peer") -> Asker:
        """Return the sender of an allowed request; raise GateRefusal for others, CodecError if it cannot be decoded."""
        ...


class StrangerGate(Protocol):
    """Decides about incomplete frames over 64 KiB of connections on which no request had a valid signature yet."""

    def refusal_of_large(self, fields: Mapping[str, str], peer: "Peer") -> str | None:
        """Return the reason to refuse the frame with these header fields, or None to read it completely."""
        ...


@runtime_checkable
class ByteGate(Protocol):
    """An access control (`Gate`) that can also check sends for the fast path (`Intake`), before they are decoded.

    It never allows more than `check`. Sends that it does not allow are not refused, but decoded and given to `check`.
    """

    def signer_of(self, peer: "Peer") -> KnownSigner | None:
        """Return the user whose signed sends the fast path may accept on a connection, or None to accept none."""
        ...

    def may_send(
        self, rules: Sequence[RequestRule], topic: bytes, signer: KnownSigner, peer: "Peer"
    ) -> bool:
        """Return whether a signer surely may send to a topic under all of the rules; if so, note that in `signer`."""
        ...


class OwnMachineGate:
    """The gate without access control: administration must come from this machine, if trusted, or `may` must allow it.

    All other requests are allowed from everywhere.
    """

    def __init__(
        self,
        words: Callable[[RequestRule, "Peer"], str],
        may: Callable[[RequestRule, "Peer"], bool] = lambda _rule, _peer: False,
    ) -> None:
        """`words` returns the text of a refusal, `may` whether a peer elsewhere may administrate (default: never)."""
        self._words = words
        self._may = may

    def is_asked(self, rule: RequestRule) -> bool:
        """Return whether the rule is administrative; other requests need no check."""
        return rule.right is Right.ADMINISTRATOR

    def check(self, rule: RequestRule, _request: Command | RawCommand, peer: "Peer") -> Asker:
        """Return EVERYBODY; raise GateRefusal for administration from another machine, unless `may` allows it."""
        if (
            rule.right is Right.ADMINISTRATOR
            and not peer.is_on_own_machine
            and not self._may(rule, peer)
        ):
            raise GateRefusal(self._words(rule, peer))
        return EVERYBODY


class RequestTable:
    """The requests that a server answers in its current role; another role uses another table.

    Attributes:
        rules: Rules by request code.
        handlers: Handlers of single requests by code, wrapped in a gate check if needed.
        batches: Batch handlers by code, likewise.
        intake: Fast path of a batch handler; None if none has one, or the gate's checks exclude its use.
    """

    def __init__(
        self, rules: Iterable[RequestRule], answers: Iterable[Answers], gate: Gate
    ) -> None:
        """Join rules and handlers by code; assert that each rule has exactly one handler, and each handler a rule."""
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
                    # Keep the codes of one handler in one batch, which it stores with one write.
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
        """Select the intake; let it offer frames to the `FrameHandler`s that need no gate check."""
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
        """Return the intake if no gate checks any of its codes, otherwise None."""
        rules = [self.rules[code] for code in intake.codes if code in self.rules]
        return None if any(map(gate.is_asked, rules)) else intake


def _gated(handler: Handler | WithAsker, rule: RequestRule, gate: Gate | None) -> Handler:
    if isinstance(handler, WithAsker) or rule.is_audited:
        with_asker = _with_asker(handler, rule)
        if gate is None:
            return lambda command, peer: with_asker(command, peer, EVERYBODY)

        def name_asker(command: Command, peer: "Peer") -> Outcome:
            return with_asker(command, peer, _checked(gate, rule, command, peer))

        return name_asker
    if gate is None:
        return handler

    def pass_gate(command: Command, peer: "Peer") -> Outcome:
        _checked(gate, rule, command, peer)
        return handler(command, peer)

    return pass_gate


def _with_asker(handler: Handler | WithAsker, rule: RequestRule) -> AskedHandler:
    if isinstance(handler, WithAsker):
        return audited(handler.handler) if rule.is_audited else handler.handler
    plain = handler
    return audited(lambda command, peer, _asker: plain(command, peer))


def _checked(
    gate: Gate, rule: RequestRule, command: Command | RawCommand, peer: "Peer"
) -> Asker:
    """Return the sender of a request that the gate allows; note a refusal in the audit log, and raise it."""
    try:
        return gate.check(rule, command, peer)
    except GateRefusal as error:
        _audit_refusal(rule, command, peer, error)
        raise


def _audit_refusal(
    rule: RequestRule, command: Command | RawCommand, peer: "Peer", error: GateRefusal
) -> None:
    is_admins = rule.right is Right.ADMINISTRATOR
    note(
        "refused", request_name(rule.code), user=error.user, address=peer.address,
        what=described(command[6], command[7]) if is_admins else "", reason=error.why, is_counted=True,
    )  # fmt: skip


class _GatedBatch:
    def __init__(
        self, batch: BatchHandler, rules: Mapping[int, RequestRule], gate: Gate
    ) -> None:
        self._batch = batch
        # Asked once: a protocol compares all its members each time.
        self._asked = batch if isinstance(batch, AskedBatchHandler) else None
        self._rules = rules
        self._gate = gate

    def handle(self, reads: list[Read]) -> None:
        if self._asked is not None:
            self._asked.handle_asked(reads, self._check)
            return
        allowed = [
            (peer, some) for peer, commands in reads if (some := self._allowed(peer, commands))
        ]
        if allowed:
            self._batch.handle(allowed)

    def _allowed(self, peer: "Peer", commands: list[RawCommand]) -> list[RawCommand]:
        """Return the commands of a connection that the gate allows, and answer the others."""
        allowed = []
        for command in commands:
            try:
                self._check(command, peer)
            except Exception as error:  # noqa: BLE001  Affects only this request.
                peer.answer(command, answer_to_error(error, command[0]))
            else:
                allowed.append(command)
        return allowed

    def _check(self, command: RawCommand, peer: "Peer") -> Asker:
        return _checked(self._gate, self._rules[command[0]], command, peer)

    def written(self) -> None:
        self._batch.written()


class _GatedIntake:
    """A fast path that accepts only sends signed by the connection's known user, to topics that the gate surely allows.

    The slow path decodes all other requests; the gate checks them there if their rules require it.
    """

    def __init__(self, intake: Intake, rules: list[RequestRule], gate: ByteGate) -> None:
        self.judged = self.codes = intake.judged
        self.handle = intake.handle
        self.show = intake.show
        self.passed_over = intake.passed_over
        self.written = intake.written
        self._intake = intake
        self._rules = rules
        self._gate = gate

    @property
    def count(self) -> int:
        return self._intake.count

    def take_reads(self, _turn: TurnReads["Peer"], _count_max: int, _size_min: int) -> None:
        """Accept nothing, because each peer must be checked with its own signer, as `take` does."""

    def answer_ahead(self, _data: bytes, _write: Write) -> int:
        """Answer nothing and return 0, because the gate checks these requests only as decoded commands."""
        return 0

    def take(
        self,
        data: bytes,
        position: int,
        peer: "Peer",
        count_max: int,
        _signer: KnownSigner | None = None,
    ) -> int:
        """Accept requests signed by the connection's known user to allowed topics; return the position after them."""
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
    """Return a function from a topic to whether an asker may do any of the actions, for handlers that find records."""
    if asker is EVERYBODY:
        return any_topic
    wanted = frozenset(actions)
    return lambda name: asker.may(
        topic_access(name, wanted, shows_messages=shows_messages), Right.READER
    )


def any_topic(_name: str) -> bool:
    """Return True for any topic; used by `may_of` for `EVERYBODY`."""
    return True


# --- finders of touched resources


def topic(field: str, *actions: Action, shows_messages: bool = False) -> Finder:
    """Return a finder for the topic that a header field names, if any; a retry topic counts as its group.

    Args:
        field: Name of the header field.
        actions: Actions of which any one suffices.
        shows_messages: Whether the request returns messages (`Access`).
    """
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> tuple[Access, ...]:
        name = _name_in(fields, field)
        if not name:
            return ()
        return (topic_access(name, wanted, shows_messages=shows_messages),)

    return Finder(said("topic", f"`{field}`", actions), find, wanted)


def _name_in(fields: Mapping[str, str], field: str) -> str:
    """Return the name in a header field as its handler will read it, also one that is no text; "" without one."""
    name = fields.get(field)
    return "" if name is None else text_of(name)


def group(field: str, *actions: Action) -> Finder:
    """Return a finder for the group that a header field names, if any."""
    wanted = frozenset(actions)

    def find(fields: Mapping[str, str], _body: bytes) -> tuple[Access, ...]:
        name = _name_in(fields, field)
        return (Access(Resource.GROUP, name, wanted),) if name else ()

    return Finder(said("group", f"`{field}`", actions), find, wanted)


def cluster(*actions: Action) -> Finder:
    """Return a finder of an access to the whole cluster, whatever the request names."""
    access = Access(Resource.CLUSTER, ANY_NAME, frozenset(actions))
    return Finder(
        said("cluster", "", actions), lambda _fields, _body: (access,), access.actions
    )


def all_topics(*actions: Action) -> Finder:
    """Return a finder of an access to all topics, whatever the request names."""
    access = Access(Resource.TOPIC, ANY_NAME, frozenset(actions))
    words = said("every topic", "", actions)
    return Finder(words, lambda _fields, _body: (access,), access.actions)


def named_or_cluster(named: Finder, *actions: Action) -> Finder:
    """Return a `Finder` of the resources that a request touches: those that `named` finds, else the whole cluster."""
    whole = cluster(*actions)

    def find(fields: Mapping[str, str], body: bytes) -> Iterable[Access]:
        return [*named.find(fields, body)] or whole.find(fields, body)

    words = f"{named.words}; without it {whole.words}"
    return Finder(words, find, named.actions | whole.actions)


def said(kind: str, where: str, actions: Iterable[Action]) -> str:
    """Return the text that describes a finder in the documentation, such as "topic `topic`: Pub or Sub"."""
    may = " or ".join(action.value for action in actions)
    return f"{kind} {where}: {may}" if where else f"{kind}: {may}"
