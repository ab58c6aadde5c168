"""Creates the handlers of a broker's basic requests, which no feature (broker.features) answers: sends, pulls, topics, and so on."""

from collections.abc import Callable, Mapping, Sequence

from cometmq.broker.admin.requests.configuration import configuration_answers
from cometmq.broker.admin.requests.groups import group_answers
from cometmq.broker.admin.requests.lookup import lookup_answers
from cometmq.broker.admin.requests.offsets import offset_answers
from cometmq.broker.admin.requests.topics import topic_answers
from cometmq.broker.members.requests import ClientHandler
from cometmq.broker.parts import Parts
from cometmq.broker.pull.fast_path import pull_intake
from cometmq.broker.pull.pulls import Pulls
from cometmq.broker.pull.requests import cold_reader_answers, filter_answers, pull_answers
from cometmq.broker.refusals import refusals
from cometmq.broker.replies.requests import relay_answers, reply_answers
from cometmq.broker.send.fast_failure import ColdReads
from cometmq.broker.send.requests.sends import SendHandler
from cometmq.broker.send.sends import Sends
from cometmq.broker.statistics.requests import RuntimeHandler
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def basic_answers(
    parts: Parts,
    *,
    sends: Sends,
    announce: Callable[..., Steps[None]],
    facts: Sequence[Callable[[], Mapping[str, str]]],
) -> list[Answers]:
    """Create the handlers of a broker's basic requests; return mappings from request codes to handlers.

    `announce` registers changed topics at the nameservers; it waits up to 3 s until the reachable ones answer or fail.
    Each of `facts` returns what a feature (delay, pop, ...) adds to the runtime numbers.
    """
    pulls = pulls_of(parts)
    return [
        SendHandler(sends, parts, pulls=pull_intake(pulls, parts)).answers,
        pull_answers(pulls),
        offset_answers(parts),
        ClientHandler(parts, announce=announce).answers,
        topic_answers(parts, announce),
        group_answers(parts),
        lookup_answers(parts),
        RuntimeHandler(parts, facts=facts).answers,
        reply_answers(parts),
        filter_answers(parts),
        relay_answers(parts),
        configuration_answers(parts),
        cold_reader_answers(parts),
        refusals(parts),
    ]


def pulls_of(parts: Parts) -> Pulls:
    """Create the service that answers pulls; it reads old messages in pool threads."""
    return Pulls(parts, lend=ColdReads(parts.clock, parts.settings).read)
