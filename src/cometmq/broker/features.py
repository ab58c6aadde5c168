"""The features of a broker: what plugs into it (broker.parts), in the order in which they start.

A new one is a line here.
"""

from collections.abc import Callable

from cometmq.broker.cleaning import Cleaning
from cometmq.broker.delay.feature import DelayLevels
from cometmq.broker.fast_failure import StallWatch
from cometmq.broker.guards import Guards
from cometmq.broker.handlers.access import AccessHandler
from cometmq.broker.handlers.cleaning import CleaningHandler
from cometmq.broker.handlers.cold_readers import ColdReaderHandler
from cometmq.broker.handlers.configuration import ConfigurationHandler
from cometmq.broker.handlers.delay import DelayHandler
from cometmq.broker.handlers.filters import FilterHandler
from cometmq.broker.handlers.guards import GuardHandler
from cometmq.broker.handlers.monitoring import MonitoringHandler
from cometmq.broker.handlers.refusals import RefusalHandler
from cometmq.broker.handlers.relay import RelayHandler
from cometmq.broker.handlers.replies import ReplyHandler
from cometmq.broker.handlers.resets import ResetHandler
from cometmq.broker.handlers.retries import RetryHandler
from cometmq.broker.handlers.static_topics import StaticTopicHandler
from cometmq.broker.handlers.statistics import StatisticsHandler
from cometmq.broker.handlers.timer import TimerHandler
from cometmq.broker.handlers.transactions import TransactionHandler
from cometmq.broker.other_queues import OtherQueues
from cometmq.broker.parts import Feature, Parts, asked_by
from cometmq.broker.pop.feature import AssignmentFeature, PopFeature
from cometmq.broker.static_topics import StaticTopics
from cometmq.broker.timer.feature import Timer
from cometmq.broker.transactions.feature import Transactions

# In the order in which they are started, and see a send (broker.reroute).
FEATURES: tuple[Callable[[Parts], Feature], ...] = (
    # First: what it refuses is the topic that was asked for, before another feature moves the message.
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
