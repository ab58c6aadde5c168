"""The table of the broker's requests: for each code, who may send it, and which resources it accesses.

Without access control there is only one rule: administrative requests from other machines are refused, because
RocketMQ's worst vulnerabilities were of this kind (docs/compatibility.md); but slaves of the group may copy tables and
ask for the state of this broker. Resources and actions mostly follow RocketMQ's DefaultAuthorizationContextBuilder and
@RocketMQAction, with a rule for each code that has none there.
"""

from collections.abc import Callable
from functools import partial

from cometmq.broker import request_bodies as in_body
from cometmq.model.codes import RequestCode, request_name
from cometmq.model.rights import Action, Right
from cometmq.net.peer import Peer
from cometmq.net.requests import (
    Finder,
    Gate,
    OwnMachineGate,
    RequestRule,
    all_topics,
    cluster,
    group,
    named_or_cluster,
    topic,
)

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE
Code = RequestCode


def _rule(
    right: Right,
    code: int,
    *finders: Finder,
    is_batch: bool = False,
    is_asked_again: bool = False,
) -> RequestRule:
    return RequestRule(code, right, finders, is_batch, is_asked_again)


_anybody, _reader = partial(_rule, Right.ANYBODY), partial(_rule, Right.READER)
_writer, _admin = partial(_rule, Right.WRITER), partial(_rule, Right.ADMINISTRATOR)

_PUB = topic("topic", PUB)
_PUB_V2 = topic("b", PUB)  # The short names of SEND_MESSAGE_V2.
_SUB = (topic("topic", SUB), group("consumerGroup", SUB))

_MESSAGES = (
    _writer(Code.SEND_MESSAGE, _PUB, is_batch=True),
    _writer(Code.SEND_MESSAGE_V2, _PUB_V2, is_batch=True),
    _writer(Code.SEND_BATCH_MESSAGE, _PUB_V2, is_batch=True),
    _writer(Code.SEND_REPLY_MESSAGE, _PUB),
    _writer(Code.SEND_REPLY_MESSAGE_V2, _PUB_V2),
    # Older clients name no topic; it is in the half message.
    _writer(Code.END_TRANSACTION, _PUB, is_batch=True, is_asked_again=True),
    _writer(Code.RECALL_MESSAGE, _PUB),
    _reader(Code.PULL_MESSAGE, *_SUB),
    _reader(Code.LITE_PULL_MESSAGE, *_SUB),
    # The topic of the record that is found is checked, too, whatever topic the request names.
    _reader(
        Code.CONSUMER_SEND_MSG_BACK, group("group", SUB), is_batch=True, is_asked_again=True
    ),
    _reader(Code.QUERY_MESSAGE, topic("topic", SUB, GET), is_asked_again=True),
    _reader(
        Code.VIEW_MESSAGE_BY_ID,
        named_or_cluster(topic("topic", GET, shows_messages=True), GET),
        is_asked_again=True,
    ),
    _reader(Code.POP_MESSAGE, *_SUB),
    _reader(Code.PEEK_MESSAGE, *_SUB),
    _reader(Code.NOTIFICATION, *_SUB),
    # Reading how many pops wait only needs the right to read.
    _reader(Code.POLLING_INFO, topic("topic", GET), group("consumerGroup", GET)),
    _reader(Code.ACK_MESSAGE, *_SUB, is_batch=True),
    _reader(Code.BATCH_ACK_MESSAGE, in_body.of_acks(SUB)),
    _reader(Code.CHANGE_MESSAGE_INVISIBLETIME, *_SUB),
)

_QUEUE = topic("topic", GET)
_OFFSETS = (
    _reader(
        Code.QUERY_CONSUMER_OFFSET, topic("topic", SUB, GET), group("consumerGroup", SUB, GET)
    ),
    _reader(
        Code.UPDATE_CONSUMER_OFFSET,
        topic("topic", SUB, UPDATE),
        group("consumerGroup", SUB, UPDATE),
    ),
    _reader(Code.SEARCH_OFFSET_BY_TIMESTAMP, _QUEUE),
    _reader(Code.GET_MAX_OFFSET, _QUEUE),
    _reader(Code.GET_MIN_OFFSET, _QUEUE),
    _reader(Code.GET_EARLIEST_MSG_STORETIME, _QUEUE),
)

_CLIENTS = (
    _anybody(Code.HEART_BEAT, in_body.of_heartbeat(SUB)),
    _anybody(Code.UNREGISTER_CLIENT, group("consumerGroup", SUB)),
    _reader(Code.GET_CONSUMER_LIST_BY_GROUP, group("consumerGroup", SUB, GET)),
    _reader(Code.LOCK_BATCH_MQ, in_body.of_locks(SUB)),
    _reader(Code.UNLOCK_BATCH_MQ, in_body.of_locks(SUB)),
    _reader(Code.CHECK_CLIENT_CONFIG, in_body.of_client_config(SUB)),
    _reader(Code.QUERY_ASSIGNMENT, in_body.of_assignment(SUB)),
)

_TOPICS_AND_GROUPS = (
    _admin(Code.UPDATE_AND_CREATE_TOPIC, topic("topic", CREATE)),
    _admin(Code.UPDATE_AND_CREATE_TOPIC_LIST, in_body.of_topics(CREATE)),
    _admin(Code.UPDATE_AND_CREATE_STATIC_TOPIC, cluster(UPDATE)),
    _admin(Code.DELETE_TOPIC_IN_BROKER, topic("topic", DELETE)),
    _admin(Code.GET_ALL_TOPIC_CONFIG, all_topics(LIST)),
    _reader(Code.GET_TOPIC_CONFIG, topic("topic", GET)),
    _admin(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, cluster(GET)),
    _admin(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, in_body.of_group(CREATE)),
    _admin(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, in_body.of_groups(CREATE)),
    _admin(Code.DELETE_SUBSCRIPTIONGROUP, group("groupName", DELETE)),
    _admin(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, cluster(GET)),
    _reader(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group("group", GET)),
    _admin(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, topic("topic", UPDATE), group("group", UPDATE)),
    _admin(Code.SET_MESSAGE_REQUEST_MODE, cluster(UPDATE)),
    _admin(Code.GET_ALL_MESSAGE_REQUEST_MODE, cluster(GET)),
)

_TOPIC_AND_GROUP = (topic("topic", GET), group("group", GET))
_GROUP_OR_ALL = named_or_cluster(group("consumerGroup", GET), GET)
_STATISTICS = (
    _admin(Code.GET_TOPIC_STATS_INFO, topic("topic", GET)),
    _admin(Code.QUERY_TOPIC_CONSUME_BY_WHO, topic("topic", GET)),
    _admin(
        Code.GET_CONSUME_STATS,
        topic("topic", GET),
        in_body.topic_list("topicList", GET),
        group("consumerGroup", GET),
    ),
    _admin(Code.QUERY_CONSUME_TIME_SPAN, *_TOPIC_AND_GROUP),
    _admin(Code.QUERY_TOPICS_BY_CONSUMER, group("group", GET)),
    _admin(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, *_TOPIC_AND_GROUP),
    _admin(Code.GET_BROKER_CONSUME_STATS, cluster(GET)),
    _admin(Code.VIEW_BROKER_STATS_DATA, cluster(GET)),
    _admin(Code.QUERY_CONSUME_QUEUE, topic("topic", GET), group("consumerGroup", GET)),
    _admin(Code.GET_CONSUMER_CONNECTION_LIST, group("consumerGroup", GET)),
    _admin(Code.GET_PRODUCER_CONNECTION_LIST, cluster(GET)),
    _admin(Code.GET_ALL_PRODUCER_INFO, cluster(GET)),
    _admin(Code.GET_CONSUMER_RUNNING_INFO, group("consumerGroup", GET)),
    # The message is found by its id, whatever topic the request names, as for RESUME_CHECK_HALF_MESSAGE (323).
    _admin(Code.CONSUME_MESSAGE_DIRECTLY, cluster(UPDATE)),
    _admin(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, *_TOPIC_AND_GROUP),
    _admin(Code.GET_GROUP_CONFLICTS, _GROUP_OR_ALL),
    _admin(Code.GET_QUEUE_LOCKS, _GROUP_OR_ALL),
    _admin(Code.GET_ALL_CONSUMER_OFFSET, cluster(GET)),
    _admin(Code.GET_ALL_DELAY_OFFSET, cluster(GET)),
    _admin(Code.GET_TIMER_CHECK_POINT, cluster(GET)),
    _admin(Code.GET_TIMER_METRICS, cluster(GET)),
)

_OPERATION = (
    _admin(Code.GET_BROKER_CONFIG, cluster(GET)),
    _admin(Code.UPDATE_BROKER_CONFIG, cluster(UPDATE)),
    _admin(Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, cluster(UPDATE)),
    _admin(Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, cluster(UPDATE)),
    _admin(Code.GET_COLD_DATA_FLOW_CTR_INFO, cluster(GET)),
    _admin(Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, named_or_cluster(topic("topic", GET), GET)),
    _admin(Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, cluster(GET)),
    _admin(Code.ADD_BROKER, cluster(UPDATE)),
    _admin(Code.REMOVE_BROKER, cluster(UPDATE)),
    _admin(Code.GET_BROKER_EPOCH_CACHE, cluster(GET)),
    _admin(Code.NOTIFY_BROKER_ROLE_CHANGED, cluster(UPDATE)),
    _admin(Code.TRANSFER_LEADERSHIP, cluster(UPDATE)),
    _admin(Code.ADD_GROUP_MEMBER, cluster(UPDATE)),
    _admin(Code.REMOVE_GROUP_MEMBER, cluster(UPDATE)),
    _admin(Code.SET_COMMITLOG_READ_MODE, cluster(UPDATE)),
    _admin(Code.UPDATE_AND_CREATE_ACL_CONFIG, cluster(UPDATE)),
    _admin(Code.DELETE_ACL_CONFIG, cluster(UPDATE)),
    _admin(Code.GET_BROKER_CLUSTER_ACL_INFO, cluster(GET)),
    _admin(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, cluster(UPDATE)),
    _admin(Code.AUTH_CREATE_USER, cluster(UPDATE)),
    _admin(Code.AUTH_UPDATE_USER, cluster(UPDATE)),
    _admin(Code.AUTH_DELETE_USER, cluster(UPDATE)),
    _admin(Code.AUTH_GET_USER, cluster(GET)),
    _admin(Code.AUTH_LIST_USER, cluster(GET)),
    _admin(Code.AUTH_CREATE_ACL, cluster(UPDATE)),
    _admin(Code.AUTH_UPDATE_ACL, cluster(UPDATE)),
    _admin(Code.AUTH_DELETE_ACL, cluster(UPDATE)),
    _admin(Code.AUTH_GET_ACL, cluster(GET)),
    _admin(Code.AUTH_LIST_ACL, cluster(GET)),
    _admin(Code.GET_BROKER_RUNTIME_INFO, cluster(GET)),
    _admin(Code.NOTIFY_MIN_BROKER_ID_CHANGE, cluster(UPDATE)),
    # Changes nothing here. Slaves send it, from other machines and perhaps without TLS.
    _admin(Code.EXCHANGE_BROKER_HA_INFO, cluster(GET)),
    _admin(Code.GET_BROKER_HA_STATUS, cluster(GET)),
    _admin(Code.RESET_MASTER_FLUSH_OFFSET, cluster(UPDATE)),
    _admin(Code.CLEAN_EXPIRED_CONSUMEQUEUE, cluster(UPDATE)),
    _admin(Code.CLEAN_UNUSED_TOPIC, cluster(UPDATE)),
    _admin(Code.DELETE_EXPIRED_COMMITLOG, cluster(UPDATE)),
    _admin(Code.POP_ROLLBACK, cluster(UPDATE)),
    _admin(Code.RESUME_CHECK_HALF_MESSAGE, cluster(UPDATE)),
    _admin(Code.INVOKE_BROKER_TO_RESET_OFFSET, topic("topic", UPDATE), group("group", UPDATE)),
    _admin(Code.QUERY_CORRECTION_OFFSET, topic("topic", GET), group("compareGroup", GET)),
    _admin(
        Code.CLONE_GROUP_OFFSET,
        topic("topic", UPDATE),
        group("srcGroup", UPDATE),
        group("destGroup", UPDATE),
    ),
)

RULES = (
    *_MESSAGES,
    *_OFFSETS,
    *_CLIENTS,
    *_TOPICS_AND_GROUPS,
    *_STATISTICS,
    *_OPERATION,
)  # fmt: skip


# Requests by which a slave copies tables and the state of its master; slaves of the group may send them from other machines.
OF_SLAVES = frozenset(
    {
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_DELAY_OFFSET,
        Code.GET_TIMER_CHECK_POINT,
        Code.GET_TIMER_METRICS,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
        Code.EXCHANGE_BROKER_HA_INFO,
    }
)


def own_machine_gate(is_slave: Callable[[str], bool]) -> Gate:
    """Return the gate used without access control: other machines may not administrate, slaves may send `OF_SLAVES`.

    `is_slave` returns whether an IP counts as that of a slave of the group.
    """

    def may(rule: RequestRule, peer: Peer) -> bool:
        return rule.code in OF_SLAVES and is_slave(peer.ip)

    return OwnMachineGate(_refusal, may)


def _refusal(rule: RequestRule, _peer: Peer) -> str:
    return (
        f"{request_name(rule.code)} is accepted from this machine only, until access control is "
        "configured"
    )
