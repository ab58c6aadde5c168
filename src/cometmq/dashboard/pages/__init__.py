"""The table `PAGES` of all pages of the web dashboard behind its login, collected from the modules of this package."""

from cometmq.dashboard.page_request import Page
from cometmq.dashboard.pages import (
    audit,
    brokers,
    dead_letters,
    doctor,
    groups,
    jobs,
    key_values,
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
    *key_values.PAGES,
    *replicas.PAGES,
    *doctor.PAGES,
    *topics.PAGES,
    *groups.PAGES,
    *resets.PAGES,
    *messages.PAGES,
    *tail.PAGES,
    *dead_letters.PAGES,
    *waiting.PAGES,
    *traces.PAGES,
    *jobs.PAGES,
    *users.PAGES,
    *audit.PAGES,
)
