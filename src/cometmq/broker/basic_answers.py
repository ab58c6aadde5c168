"""Creates the handlers of a broker's basic requests: sends, pulls, offsets, clients, topics, groups, lookup, runtime numbers."""

from collections.abc import Callable, Mapping, Sequence

from cometmq.broker.admin.requests.groups import GroupHandler
from cometmq.broker.admin.requests.lookup import QueryHandler
from cometmq.broker.admin.requests.offsets import OffsetHandler
from cometmq.broker.admin.requests.topics import TopicHandler
from cometmq.broker.members.requests.clients import ClientHandler
from cometmq.broker.parts import Parts, RequestHandler
from cometmq.broker.pull.fast_path import pull_intake
from cometmq.broker.pull.pulls import Pulls
from cometmq.broker.pull.requests.pulls import PullHandler
from cometmq.broker.send.fast_failure import ColdReads
from cometmq.broker.send.requests.sends import SendHandler
from cometmq.broker.send.sends import Sends
from cometmq.broker.statistics.requests.runtime import RuntimeHandler
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def basic_answers(
    parts: Parts,
    *,
    sends: Sends,
    announce: Callable[..., Steps[None]],
    facts: Sequence[Callable[[], Mapping[str, str]]],
) -> list[Answers]:
    """Create the handlers of a broker's basic requests; return for each the requests that it answers.

    Args:
        parts: The services of the broker.
        sends: Stores the sends.
        announce: Registers changed topics at the nameservers; waits up to 3 s until the reachable ones answer or fail.
        facts: Functions that return what each feature (delay, pop, ...) adds to the runtime numbers.
    """
    pulls = pulls_of(parts)
    handlers: tuple[RequestHandler, ...] = (
        SendHandler(sends, parts, pulls=pull_intake(pulls, parts)),
        PullHandler(pulls),
        OffsetHandler(parts),
        ClientHandler(parts, announce=announce),
        TopicHandler(parts, announce=announce),
        GroupHandler(parts),
        QueryHandler(parts),
        RuntimeHandler(parts, facts=facts),
    )
    return [handler.answers for handler in handlers]


def pulls_of(parts: Parts) -> Pulls:
    """Return the service of pulls."""
    return Pulls(parts, lend=ColdReads(parts.clock, parts.settings).read)
