from cometmq.client.admin.replay import ReplayCandidate as ReplayCandidate
from cometmq.client.admin.replay_claims import AsyncReplayClaims as AsyncReplayClaims
from cometmq.client.admin.replay_ledger import LetterId as LetterId
from cometmq.client.connection.instance import ClientInstance as ClientInstance
from cometmq.client.consumer.allocation import ConsistentHash as ConsistentHash
from cometmq.client.consumer.allocation import FixedQueues as FixedQueues
from cometmq.client.consumer.allocation import MachineRooms as MachineRooms
from cometmq.client.consumer.allocation import NearbyRoom as NearbyRoom
from cometmq.client.consumer.allocation import allocate_averagely as allocate_averagely
from cometmq.client.consumer.allocation import allocate_in_circle as allocate_in_circle
from cometmq.client.consumer.counts import TopicCounts as TopicCounts
from cometmq.client.consumer.listeners import Said as Said
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader as AsyncQueueReader
from cometmq.client.consumer.pull.read_from import ReadFrom as ReadFrom
from cometmq.client.producer.encoded_producer import (
    AsyncEncodedProducer as AsyncEncodedProducer,
)
from cometmq.client.producer.encoded_producer import CheckedHalfMessage as CheckedHalfMessage
from cometmq.client.producer.encoded_producer import HalfJudge as HalfJudge
from cometmq.client.producer.encoded_send import EncodedBatch as EncodedBatch
from cometmq.client.producer.encoded_send import EncodedMessage as EncodedMessage
from cometmq.client.producer.queue_selector import Selector as Selector
from cometmq.client.producer.queue_selector import nearby_room as nearby_room
from cometmq.client.producer.transactions import TransactionResult as TransactionResult
from cometmq.client.results import IndexedMessages as IndexedMessages
from cometmq.client.results import PullResult as PullResult
from cometmq.client.results import PullStatus as PullStatus
from cometmq.client.results import RawPull as RawPull
from cometmq.client.results import TopicQueues as TopicQueues
from cometmq.client.sync.encoded_producer import EncodedProducer as EncodedProducer
from cometmq.client.sync.queue_reader import QueueReader as QueueReader
from cometmq.client.sync.replay_claims import ReplayClaims as ReplayClaims
from cometmq.client.topic import BodyCodec as BodyCodec
from cometmq.net.clock import SystemClock as SystemClock
