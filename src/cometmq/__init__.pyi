from cometmq.client.admin.admin import AsyncAdmin as AsyncAdmin
from cometmq.client.consumer.filters import ALL as ALL
from cometmq.client.consumer.filters import Filter as Filter
from cometmq.client.consumer.filters import Sql as Sql
from cometmq.client.consumer.filters import Subscriptions as Subscriptions
from cometmq.client.consumer.filters import Tag as Tag
from cometmq.client.consumer.listeners import BatchListener as BatchListener
from cometmq.client.consumer.listeners import DeadLetter as DeadLetter
from cometmq.client.consumer.listeners import Listener as Listener
from cometmq.client.consumer.listeners import OrderlyStatus as OrderlyStatus
from cometmq.client.consumer.listeners import RetryLater as RetryLater
from cometmq.client.consumer.listeners import first_key as first_key
from cometmq.client.consumer.pop.simple_consumer import (
    AsyncSimpleConsumer as AsyncSimpleConsumer,
)
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer as AsyncPullConsumer
from cometmq.client.consumer.push.in_processes import InProcesses as InProcesses
from cometmq.client.consumer.push.push_consumer import AsyncPushConsumer as AsyncPushConsumer
from cometmq.client.consumer.settings import ConsumeFrom as ConsumeFrom
from cometmq.client.consumer.settings import PullConsumerSettings as PullConsumerSettings
from cometmq.client.consumer.settings import PushConsumerSettings as PushConsumerSettings
from cometmq.client.consumer.settings import SimpleConsumerSettings as SimpleConsumerSettings
from cometmq.client.producer.producer import AsyncProducer as AsyncProducer
from cometmq.client.producer.queue_selector import at_random as at_random
from cometmq.client.producer.queue_selector import by_hash as by_hash
from cometmq.client.producer.queue_selector import round_robin as round_robin
from cometmq.client.producer.transactions import AsyncTransaction as AsyncTransaction
from cometmq.client.producer.transactions import TransactionListener as TransactionListener
from cometmq.client.producer.transactions import TransactionState as TransactionState
from cometmq.client.results import SendResult as SendResult
from cometmq.client.results import SendStatus as SendStatus
from cometmq.client.settings import ClientSettings as ClientSettings
from cometmq.client.settings import ProducerSettings as ProducerSettings
from cometmq.client.sync.admin import Admin as Admin
from cometmq.client.sync.producer import Producer as Producer
from cometmq.client.sync.pull_consumer import PullConsumer as PullConsumer
from cometmq.client.sync.push_consumer import PushConsumer as PushConsumer
from cometmq.client.sync.simple_consumer import SimpleConsumer as SimpleConsumer
from cometmq.client.sync.transaction import Transaction as Transaction
from cometmq.client.topic import JsonCodec as JsonCodec
from cometmq.client.topic import MsgspecCodec as MsgspecCodec
from cometmq.client.topic import PydanticCodec as PydanticCodec
from cometmq.client.topic import Received as Received
from cometmq.client.topic import Topic as Topic
from cometmq.codec.compression import Compression as Compression
from cometmq.embedded.virtual import Virtual as Virtual
from cometmq.embedded.virtual import virtual as virtual
from cometmq.model.credentials import Credentials as Credentials
from cometmq.model.message import Message as Message
from cometmq.model.message import StoredMessage as StoredMessage
from cometmq.model.queue import MessageQueue as MessageQueue
from cometmq.model.tls import TlsSettings as TlsSettings

__version__: str
