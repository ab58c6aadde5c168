"""Handlers of one shape: decode a request, call a service, and encode the result.

The service knows no frames. It returns its result at once, or steps (a generator) that return it. So may the function
that encodes the result: `empty`, `as_is`, `header_of`, or what `body_of` and `body_elsewhere` return.
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any, TypeVar, overload

from cometmq.codec.fields import decode_carefully, encode_fields, rows_of
from cometmq.codec.remoting import Command
from cometmq.kernel import plain_header
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Handler, Outcome
from cometmq.steps.steps import Steps, elsewhere

Header = TypeVar("Header")
Body = TypeVar("Body")
Result = TypeVar("Result")
SUCCESS = (
    Answer()
)  # Without content; of the answers to several requests only their numbers differ.


def empty(_result: object) -> Answer:
    """Return the answer SUCCESS without content."""
    return SUCCESS


def as_is(outcome: Outcome) -> Outcome:
    """Return an answer as it is, for work that makes the answer itself."""
    return outcome


def header_of(header: object) -> Answer:
    """Return the answer SUCCESS with a header (`codec.headers`)."""
    return Answer(fields=encode_fields(header))


def body_of(encode: Callable[[Result], bytes]) -> Callable[[Result], Answer]:
    """Return a function that makes the answer SUCCESS with the result as its body."""
    return lambda result: Answer(body=encode(result))


def body_elsewhere(encode: Callable[[Result], bytes]) -> Callable[[Result], Steps[Answer]]:
    """Return a function like that of `body_of`, but it encodes in a thread, because the result may be large."""

    def encoded(result: Result) -> Steps[Answer]:
        return Answer(body=(yield from elsewhere(lambda: encode(result))))

    return encoded


@overload
def by_fields(
    header: type[Header],
    work: Callable[[Header], Steps[Result]],
    encode: Callable[[Result], Outcome] = ...,
) -> Handler: ...
@overload
def by_fields(
    header: type[Header],
    work: Callable[[Header], Result],
    encode: Callable[[Result], Outcome] = ...,
) -> Handler: ...
def by_fields(
    header: type[Header],
    work: Callable[[Header], Any],
    encode: Callable[[Any], Outcome] = empty,
) -> Handler:
    """Return a handler of requests with header fields: `work` gets the header, `encode` the result of `work`."""
    rows = rows_of(header)

    def handle(command: Command, _peer: Peer) -> Outcome:
        # What `decode_fields` does, without its frame: the least requests take some 3 us in all.
        fields = command[6]
        asked = plain_header(header, fields, rows)
        result: Any = work(decode_carefully(header, fields) if asked is None else asked)
        if result.__class__ is GeneratorType:
            return _later(result, encode)
        return encode(result)

    return handle


@overload
def by_body(
    decode: Callable[[bytes], Body],
    work: Callable[[Body], Steps[Result]],
    encode: Callable[[Result], Outcome] = ...,
) -> Handler: ...
@overload
def by_body(
    decode: Callable[[bytes], Body],
    work: Callable[[Body], Result],
    encode: Callable[[Result], Outcome] = ...,
) -> Handler: ...
def by_body(
    decode: Callable[[bytes], Body],
    work: Callable[[Body], Any],
    encode: Callable[[Any], Outcome] = empty,
) -> Handler:
    """Return a handler of requests with a body: `work` gets the decoded body, `encode` the result of `work`."""

    def handle(command: Command, _peer: Peer) -> Outcome:
        return at_once_or_later(work(decode(command[7])), encode)

    return handle


@overload
def by_code(
    work: Callable[[], Steps[Result]], encode: Callable[[Result], Outcome] = ...
) -> Handler: ...
@overload
def by_code(
    work: Callable[[], Result], encode: Callable[[Result], Outcome] = ...
) -> Handler: ...
def by_code(work: Callable[[], Any], encode: Callable[[Any], Outcome] = empty) -> Handler:
    """Return a handler of requests whose fields and body do not matter: `encode` gets the result of `work`."""

    def handle(_command: Command, _peer: Peer) -> Outcome:
        return at_once_or_later(work(), encode)

    return handle


def at_once_or_later(
    result: Result | Steps[Result], encode: Callable[[Result], Outcome]
) -> Outcome:
    """Return what `encode` makes of a result; if that is still to come (steps), return steps that encode it then."""
    some: Any = result
    return _later(some, encode) if some.__class__ is GeneratorType else encode(some)


def _later(steps: Steps[Any], encode: Callable[[Any], Outcome]) -> Steps[Answer | None]:
    outcome: Any = encode((yield from steps))
    if outcome.__class__ is GeneratorType:
        outcome = yield from outcome
    answer: Answer | None = outcome
    return answer
