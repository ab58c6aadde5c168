"""The audit log: user, address and outcome of each request for a change of a server, and each refused request.

All lines have the logger `cometmq.audit`, whatever the part of a server that handles the request: `net.requests` wraps
the handlers of the administrators' requests that change something (`RequestRule.is_audited`), and notes what its gate
refuses. A line is written when the request has ended. In a log of JSON lines each fact has its own field.

Texts of a request come from a peer: they are cut, and never contain passwords, secret keys or signatures.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cometmq.codec import fastjson
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.remoting import Command
from cometmq.codec.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from cometmq.model.codes import ResponseCode, request_name, response_name
from cometmq.model.errors import CodecError, RequestError, StoreError
from cometmq.model.rights import EVERYBODY, Asker
from cometmq.model.settings import HIDDEN
from cometmq.model.text import cut, printable
from cometmq.net.answer import Answer, answer_to_error
from cometmq.process.audit_log import WHAT_MAX, note
from cometmq.process.log_file import AUDIT
from cometmq.steps.steps import Steps

if TYPE_CHECKING:
    from cometmq.net.peer import Peer
    from cometmq.net.requests import AskedHandler, Outcome

_log = logging.getLogger(AUDIT)

# Maximum characters of one value and of one name in a request.
_VALUE_MAX, _NAME_MAX = 200, 100
# Larger bodies are not decoded for the log, which would hold up the loop; and values nested deeper are left out.
_BODY_MAX = 16 << 10
_DEPTH_MAX = 6
_DEEP = "..."  # In place of those.
# Fields and keys whose values are secrets; tests/unit/net/test_audit.py compares them with the secret settings.
_SECRET = re.compile(
    r"password|secret|token|signature|credential|initauthenticationuser|exporterheader",
    re.IGNORECASE,
)
# A value that may contain another key with a secret, as the rest of a text in an unknown form. No name has these signs.
_COMPOSED = re.compile(r"[\"':=]")
# Words of a secret by which a text that quotes it is found, also where the quote is cut.
_WORD = re.compile(r"\w{3,}")
_WORD_COMPARED = 16
# Fields that sign a request.
_SIGNING = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})


def audited(handler: "AskedHandler") -> "AskedHandler":
    """Return a handler that does the same, and usually writes an audit line when its request has ended."""

    def audit(command: Command, peer: "Peer", asker: Asker) -> "Outcome":
        try:
            outcome = handler(command, peer, asker)
        except Exception as error:
            _note_end(command, peer, asker, _error_answer(error, command[0]))
            raise
        if outcome is None or isinstance(outcome, Answer):
            _note_end(command, peer, asker, outcome)
            return outcome
        return _followed(outcome, command, peer, asker)

    return audit


def _followed(
    steps: Steps[Answer] | Steps[Answer | None], command: Command, peer: "Peer", asker: Asker
) -> Steps[Answer | None]:
    try:
        answer = yield from steps
    except Exception as error:
        _note_end(command, peer, asker, _error_answer(error, command[0]))
        raise
    except GeneratorExit:
        why = "the server stopped, or changed its role, before it was done"
        _note_end(command, peer, asker, Answer(ResponseCode.SYSTEM_ERROR, why))
        raise
    _note_end(command, peer, asker, answer)
    return answer


def _error_answer(error: Exception, code: int) -> Answer:
    if isinstance(error, RequestError | StoreError | CodecError):
        return answer_to_error(error, code)
    # The dispatcher logs it, with a number by which the client can name it.
    return Answer(ResponseCode.SYSTEM_ERROR, f"an internal error ({type(error).__name__})")


def _note_end(command: Command, peer: "Peer", asker: Asker, answer: Answer | None) -> None:
    code, remark, fields, _ = answer or Answer()
    if code == ResponseCode.SUCCESS:
        if not _log.isEnabledFor(logging.INFO):
            return  # An embedded server, in a program that does not want it.
        outcome = "done"
        reason = described(fields, b"")
    else:
        outcome = "refused" if code == ResponseCode.NO_PERMISSION else "failed"
        remark = remark or "no reason"
        if _quotes_secret(remark, command[6], command[7]):
            remark = "the answer says why; it may quote a secret of the request"
        reason = f"{response_name(code)}: {cut(remark, WHAT_MAX)}"
    note(
        outcome,
        request_name(command[0]),
        user=None if asker.name == EVERYBODY.name else asker.name,
        address=peer.address,
        what=described(command[6], command[7]),
        reason=reason,
    )


def described(fields: Mapping[str, str], body: bytes) -> str:
    """Return header fields and body of a request as one line of at most `WHAT_MAX` characters, with secrets hidden."""
    parts: list[str] = []
    size = 0
    for name, value in _facts(fields, body):
        text = (
            HIDDEN if _is_secret(name, str(value)) else printable(cut(str(value), _VALUE_MAX))
        )
        # A name of an unknown form may contain a secret with its value, as {"password=x":1} does.
        is_plain = _COMPOSED.search(name) is None or _SECRET.search(name) is None
        shown = printable(cut(name, _NAME_MAX)) if is_plain else HIDDEN
        parts.append(f"{shown}={text}" if text else shown)
        size += len(parts[-1]) + 2
        if size > WHAT_MAX:
            return f"{', '.join(parts)[: WHAT_MAX - 3]}..."
    return ", ".join(parts)


def _is_secret(name: str, value: str) -> bool:
    if _SECRET.search(name):
        return True
    return _SECRET.search(value) is not None and _COMPOSED.search(value) is not None


def _quotes_secret(remark: str, fields: Mapping[str, str], body: bytes) -> bool:
    """Return whether the reason of a refusal may have a part of a secret in the request, such as a value of a wrong type."""
    if len(body) > _BODY_MAX:
        return True  # What it has is not known here.
    facts = list(_facts(fields, body))
    is_partial = any(name == "body" or value is _DEEP for name, value in facts)
    if is_partial and _SECRET.search(body.decode(errors="replace")):
        return True  # Errors of parsers quote the text where they end.
    for name, value in facts:
        if _is_secret(name, text := str(value)):
            words = [word[:_WORD_COMPARED] for word in _WORD.findall(text)]
            if any(each in remark for each in words or [text] if each):
                return True
    return False


def _facts(fields: Mapping[str, str], body: bytes) -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        if name not in _SIGNING:
            yield name, value
    if len(body) > _BODY_MAX:
        yield "body", f"{len(body)} bytes"
    elif body:
        try:
            if body.lstrip()[:1] in (b"{", b"["):
                values = fastjson.loads(body, lenient_size_max=_BODY_MAX >> 3)
                if not isinstance(
                    values, Mapping
                ):  # Without names nothing says what is a secret.
                    yield "body", f"a list of {len(body)} bytes"
                    return
                yield from _leaves("", values, _DEPTH_MAX)
            else:
                yield from decode_java_properties(body).items()
        except CodecError:
            yield "body", f"{len(body)} bytes that cannot be read"


def _leaves(name: str, value: Any, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the texts, numbers and booleans in a JSON value, each with the names and indexes that lead to it; `_DEEP` in place of deeper ones."""
    if not isinstance(value, Mapping | list):
        yield name, str(value).lower() if isinstance(value, bool) else value
    elif depth:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in items:
            if each is not None:
                yield from _leaves(f"{name}.{key}" if name else str(key), each, depth - 1)
    else:
        yield name, _DEEP
