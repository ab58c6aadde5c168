"""Every page, in one table."""

from cometmq.dashboard.asked import Page
from cometmq.dashboard.pages import (
    audit,
    brokers,
    dead,
    doctor,
    groups,
    jobs,
    messages,
    overview,
    replicas,
    resets,
    tail,
    topics,
    traces,
    users,
    waiting,
)

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *brokers.PAGES,
    *replicas.PAGES,
    *doctor.PAGES,
    *topics.PAGES,
    *groups.PAGES,
    *resets.PAGES,
    *messages.PAGES,
    *tail.PAGES,
    *dead.PAGES,
    *waiting.PAGES,
    *traces.PAGES,
    *jobs.PAGES,
    *users.PAGES,
    *audit.PAGES,
)
