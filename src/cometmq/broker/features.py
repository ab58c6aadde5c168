"""The list of a broker's features (broker.parts), in the order in which they start. Add new ones here."""

from collections.abc import Callable

from cometmq.broker.admin.cleaning import Cleaning
from cometmq.broker.admin.requests.access import AccessFeature
from cometmq.broker.admin.requests.configuration import cleaning_answers
from cometmq.broker.admin.requests.offsets import ResetHandler
from cometmq.broker.admin.static_topics import StaticTopics
from cometmq.broker.delay.feature import DelayLevels
from cometmq.broker.delay.requests import delay_answers
from cometmq.broker.members.guards import Guards
from cometmq.broker.members.requests import guard_answers
from cometmq.broker.metrics.requests import MonitoringHandler
from cometmq.broker.parts import Feature, Parts, asked_by
from cometmq.broker.pop.feature import AssignmentFeature, PopFeature
from cometmq.broker.retry.requests import RetryHandler
from cometmq.broker.send.fast_failure import StallWatch
from cometmq.broker.send.other_queues import OtherQueues
from cometmq.broker.statistics.requests import StatisticsHandler
from cometmq.broker.timer.feature import Timer
from cometmq.broker.timer.requests import timer_answers
from cometmq.broker.transactions.feature import Transactions
from cometmq.broker.transactions.requests import transaction_answers

# They start, and reroute sends, in this order (broker.inner.reroute).
FEATURES: tuple[Callable[[Parts], Feature], ...] = (
    # First, because it checks the requested topic, before another feature reroutes the message.
    OtherQueues,
    asked_by(guard_answers, Guards),
    asked_by(transaction_answers, Transactions),
    asked_by(delay_answers, DelayLevels),
    asked_by(timer_answers, Timer),
    RetryHandler,
    StatisticsHandler,
    StaticTopics,
    PopFeature,
    AssignmentFeature,
    ResetHandler,
    asked_by(cleaning_answers, Cleaning),
    AccessFeature,
    StallWatch,
    MonitoringHandler,
)
