"""Writes docs/operate/requests.md from the tables of requests, so that the page cannot lag behind.

python tools/requests_table.py            write it
python tools/requests_table.py --check    say whether it is up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from cometmq.broker import requests as broker
from cometmq.model.codes import request_name
from cometmq.nameserver import requests as nameserver
from cometmq.net.requests import RequestRule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operate" / "requests.md"

HEAD = """\
# Requests: who may send them, and what they touch

<!-- made by tools/requests_table.py: change src/cometmq/broker/requests.py and nameserver/requests.py instead -->

Each request that is answered, by its code. Every other code is answered REQUEST_CODE_NOT_SUPPORTED (3). Without
access control an administrator's requests are taken from the server's own machine only (NO_PERMISSION, 16), and all others from
everyone who reaches the port; for a living broker speaks its own host only ([nameserver](../nameserver.md)). The last column is
what [access control](security.md) asks: resources and actions of RocketMQ, of which any one is enough where "or" stands
([why](../design/0044-one-table-of-requests.md)). A retry topic belongs to its group. Of 12, 33, 36 and 37 the topic of the record
that is found is asked about as well.
"""

TABLE = """
## {title}

| code | request | right | touches |
| --- | --- | --- | --- |
"""


def main(arguments: list[str]) -> int:
    """Write or check; the exit status."""
    text = page()
    if "--check" in arguments:
        is_same = PAGE.exists() and PAGE.read_text() == text
        print("up to date" if is_same else f"{PAGE} is not; run python tools/requests_table.py")
        return 0 if is_same else 1
    PAGE.write_text(text)
    return 0


def page() -> str:
    """The page's text."""
    return HEAD + table("Broker", broker.RULES) + table("Nameserver", nameserver.RULES)


def table(title: str, rules: Iterable[RequestRule]) -> str:
    """The rows of one server."""
    return TABLE.format(title=title) + "".join(
        f"| {int(rule.code)} | {request_name(rule.code)} | {rule.right.value} "
        f"| {', '.join(finder.words for finder in rule.finders)} |\n"
        for rule in sorted(rules, key=lambda rule: rule.code)
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
