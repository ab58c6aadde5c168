"""Creates the handlers of a broker's basic requests: sends, pulls, offsets, clients, topics, groups, lookup, runtime numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cometmq.broker.admin.groups import GroupAdministration, GroupComparison
from cometmq.broker.admin.lookup import MessageLookup
from cometmq.broker.admin.offsets import CommittedOffsets, QueueOffsets
from cometmq.broker.admin.requests.groups import GroupHandler
from cometmq.broker.admin.requests.lookup import QueryHandler
from cometmq.broker.admin.requests.offsets import OffsetHandler
from cometmq.broker.admin.requests.topics import TopicHandler
from cometmq.broker.admin.topics import TopicAdministration
from cometmq.broker.members.requests.clients import ClientHandler
from cometmq.broker.parts import Parts, RequestHandler
from cometmq.broker.pull.fast_path import pull_intake
from cometmq.broker.pull.pulls import Pulls
from cometmq.broker.pull.requests.pulls import PullHandler
from cometmq.broker.send.fast_failure import ColdReads
from cometmq.broker.send.requests.sends import SendHandler
from cometmq.broker.send.sends import Sends
from cometmq.broker.statistics.requests.runtime import RuntimeHandler
from cometmq.model.codes import RequestCode
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
    unique_count = parts.settings.query_count_unique
    handlers: tuple[RequestHandler, ...] = (
        SendHandler(sends, parts, pulls=pull_intake(pulls, parts)),
        PullHandler(pulls),
        _offsets(parts),
        ClientHandler(parts, announce=announce),
        _topics(parts, announce),
        _groups(parts),
        QueryHandler(MessageLookup(parts.store, unique_count=unique_count)),
        RuntimeHandler(parts, facts=facts),
    )
    return [handler.answers for handler in handlers]


def pulls_of(parts: Parts) -> Pulls:
    """Return the service of pulls."""
    settings = parts.settings
    stays = settings.is_slave and not settings.is_offset_checked
    return Pulls(
        settings,
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        members=parts.members,
        offsets=parts.offsets,
        polls=parts.polls,
        counters=parts.counters,
        turns=parts.turns,
        clock=parts.clock,
        lend=ColdReads(parts.clock, settings).read,
        cold=parts.cold,
        has_master=(lambda: parts.replication().has_master) if stays else None,
    )


def _offsets(parts: Parts) -> OffsetHandler:
    store, offsets = parts.store, parts.offsets
    committed = CommittedOffsets(
        store=store, topics=parts.topics, groups=parts.groups, offsets=offsets
    )
    return OffsetHandler(committed, QueueOffsets(store), offsets=offsets)


def _topics(parts: Parts, announce: Callable[[], Steps[None]]) -> TopicHandler:
    administration = TopicAdministration(
        topics=parts.topics, offsets=parts.offsets, store=parts.store, announce=announce,
        copied=partial(parts.table_copies.deleted, RequestCode.GET_ALL_TOPIC_CONFIG),
    )  # fmt: skip
    return TopicHandler(
        administration,
        topics=parts.topics,
        log_end=lambda: parts.store.max_offset,
    )


def _groups(parts: Parts) -> GroupHandler:
    comparison = GroupComparison(
        store=parts.store, topics=parts.topics, offsets=parts.offsets, members=parts.members
    )
    administration = GroupAdministration(
        parts.groups, parts.offsets, parts.topics, parts.store,
        copied=partial(parts.table_copies.deleted, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    )  # fmt: skip
    return GroupHandler(administration, comparison, groups=parts.groups)
