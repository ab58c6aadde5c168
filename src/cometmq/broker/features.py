"""The list of a broker's features (broker.parts), in the order in which they start. Add new ones here."""

from collections.abc import Callable

from cometmq.broker.admin.cleaning import Cleaning
from cometmq.broker.admin.requests.access import AccessHandler
from cometmq.broker.admin.requests.cleaning import CleaningHandler
from cometmq.broker.admin.requests.configuration import ConfigurationHandler
from cometmq.broker.admin.requests.resets import ResetHandler
from cometmq.broker.delay.feature import DelayLevels
from cometmq.broker.delay.requests import DelayHandler
from cometmq.broker.members.guards import Guards
from cometmq.broker.members.requests.guards import GuardHandler
from cometmq.broker.metrics.requests import MonitoringHandler
from cometmq.broker.parts import Feature, Parts, asked_by
from cometmq.broker.pop.feature import AssignmentFeature, PopFeature
from cometmq.broker.pull.requests.cold_readers import ColdReaderHandler
from cometmq.broker.pull.requests.filters import FilterHandler
from cometmq.broker.refusals import RefusalHandler
from cometmq.broker.replies.requests.relay import RelayHandler
from cometmq.broker.replies.requests.replies import ReplyHandler
from cometmq.broker.retry.requests import RetryHandler
from cometmq.broker.send.fast_failure import StallWatch
from cometmq.broker.send.other_queues import OtherQueues
from cometmq.broker.static_topics.requests import StaticTopicHandler
from cometmq.broker.static_topics.static_topics import StaticTopics
from cometmq.broker.statistics.requests.statistics import StatisticsHandler
from cometmq.broker.timer.feature import Timer
from cometmq.broker.timer.requests import TimerHandler
from cometmq.broker.transactions.feature import Transactions
from cometmq.broker.transactions.requests import TransactionHandler

# They start, and reroute sends, in this order (broker.inner.reroute).
FEATURES: tuple[Callable[[Parts], Feature], ...] = (
    # First, because it checks the requested topic, before another feature reroutes the message.
    OtherQueues,
    asked_by(GuardHandler, Guards),
    asked_by(TransactionHandler, Transactions),
    asked_by(DelayHandler, DelayLevels),
    asked_by(TimerHandler, Timer),
    RetryHandler,
    ReplyHandler,
    StatisticsHandler,
    FilterHandler,
    asked_by(StaticTopicHandler, StaticTopics),
    PopFeature,
    AssignmentFeature,
    ResetHandler,
    RelayHandler,
    ConfigurationHandler,
    ColdReaderHandler,
    RefusalHandler,
    AccessHandler,
    asked_by(CleaningHandler, Cleaning),
    StallWatch,
    MonitoringHandler,
)
