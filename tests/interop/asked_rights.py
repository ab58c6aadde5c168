"""Asks a broker with access control each of its codes as one user, and says how each was answered.

The same requests go to ours and to Java's: what is compared is who is let in, not what became of the request.
"""

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cometmq.broker import requests as broker_requests
from cometmq.model.codes import RequestCode
from cometmq.model.credentials import Credentials
from tests.attacks.stranger import Stranger
from tests.fuzz.fitting import BROKER

NO_PERMISSION, NOT_SUPPORTED, OF_SOMETHING_ELSE = 16, 3, -1
# Codes of 4.9's accounts and of our own, which are not asked.
ASIDE = {50, 51, 52, 53, 30_001, 30_002}
WORDS = {
    "topic": "Somebodys", "group": "somebodys", "count": "1", "offset": "0", "truth": "false", "time": "1700000000000",
    "perm": "6", "flag": "0", "client": "c@1", "id": "0" * 32, "word": "x", "address": "10.0.0.1",
}  # fmt: skip
# By the field's name; 8: a transaction is committed (where nothing is, no answer comes).
NAMED = {"topicFilterType": "SINGLE_TAG", "commitOrRollback": "8"}
# These unmap files. 4.9's broker dies of it, with SIGSEGV, where another thread of it is at them: they are asked alone, behind all others.
UNMAPPING = {
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
}
# What is said with the code of a missing right, of something else.
_NOT_OF_RIGHTS = re.compile("not exist|is existed|is null|recall failed|black list")
AT_ONCE = 16


def codes() -> list[int]:
    """All codes that are asked."""
    return sorted({int(rule.code) for rule in broker_requests.RULES} - ASIDE)


def asked(address: str, user: Credentials, code: int) -> int:
    """The code of the answer; NO_PERMISSION also where 4.9 has its exception's name instead."""
    kinds, form = BROKER[code]
    # What begins with a stroke is not signed by some versions, and no right hangs on it.
    fields = {
        name: NAMED.get(name) or WORDS.get(kind, "0")
        for name, kind in kinds.items()
        if not name.startswith("_")
    }
    body = (
        form if isinstance(form, bytes) else b"" if form is None else json.dumps(form).encode()
    )
    with Stranger(address) as stranger:
        answer = stranger.ask_as(user, code, fields, body)
    if "AclException" in answer.remark:
        return NO_PERMISSION
    if answer.code == NO_PERMISSION and _NOT_OF_RIGHTS.search(answer.remark):
        return OF_SOMETHING_ELSE
    return answer.code


def answers(address: str, user: Credentials, of: Iterable[int] | None = None) -> dict[int, int]:
    """The code of the answer to each code, but for those that the broker does not know."""
    said = {code: asked(address, user, code) for code in (codes() if of is None else of)}
    return {code: answer for code, answer in said.items() if answer != NOT_SUPPORTED}


def let_in(
    address: str, users: Mapping[str, Credentials], of: Iterable[int]
) -> dict[str, set[int]]:
    """The codes that each user is not refused."""
    together, alone = sorted(set(of) - UNMAPPING), sorted(set(of) & UNMAPPING)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answering = {
            name: pool.map(partial(asked, address, user), together)
            for name, user in users.items()
        }
        said = {name: [*answers] for name, answers in answering.items()}
    for name, user in users.items():
        said[name] += [asked(address, user, code) for code in alone]
    return {
        name: {
            code
            for code, answer in zip([*together, *alone], answers, strict=True)
            if answer != NO_PERMISSION
        }
        for name, answers in said.items()
    }


def refused(said: dict[int, int]) -> set[int]:
    """Those that were refused for want of a right."""
    return {code for code, answer in said.items() if answer == NO_PERMISSION}
