from cometmq.spark.delta import delta_sink as delta_sink
from cometmq.spark.delta import read_delta as read_delta
from cometmq.spark.format import RocketMQSource as RocketMQSource
from cometmq.spark.register import register as register
from cometmq.spark.session import session as session
from cometmq.spark.source.commits import OffsetCommits as OffsetCommits
from cometmq.spark.source.commits import commit_offsets as commit_offsets
