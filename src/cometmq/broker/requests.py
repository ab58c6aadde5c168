"""The table of the broker's requests: for each code, who may send it, and which resources it accesses.

Without access control there is only one rule: administrative requests from other machines are refused, because
RocketMQ's worst vulnerabilities were of this kind (docs/compatibility.md); but slaves of the group may copy tables and
ask for the state of this broker. Resources and actions mostly follow RocketMQ's DefaultAuthorizationContextBuilder and
@RocketMQAction, with a rule for each code that has none there.
"""

from collections.abc import Callable, Iterable

from cometmq.broker import request_bodies as in_body
from cometmq.model.codes import RequestCode, request_name
from cometmq.model.rights import Action, Right
from cometmq.net.peer import Peer
from cometmq.net.requests import (
    Answers,
    Gate,
    OwnMachineGate,
    RequestRule,
    RequestTable,
    all_topics,
    cluster,
    group,
    named_or_cluster,
    topic,
)

ANYBODY, READER, WRITER = Right.ANYBODY, Right.READER, Right.WRITER
ADMINISTRATOR = Right.ADMINISTRATOR
PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE
Code, Rule = RequestCode, RequestRule

_PUB = (topic("topic", PUB),)
_PUB_V2 = (topic("b", PUB),)  # The short names of SEND_MESSAGE_V2.
_SUB = (topic("topic", SUB), group("consumerGroup", SUB))

_MESSAGES = (
    Rule(Code.SEND_MESSAGE, WRITER, _PUB, is_batch=True),
    Rule(Code.SEND_MESSAGE_V2, WRITER, _PUB_V2, is_batch=True),
    Rule(Code.SEND_BATCH_MESSAGE, WRITER, _PUB_V2, is_batch=True),
    Rule(Code.SEND_REPLY_MESSAGE, WRITER, _PUB),
    Rule(Code.SEND_REPLY_MESSAGE_V2, WRITER, _PUB_V2),
    # Older clients name no topic; it is in the half message.
    Rule(Code.END_TRANSACTION, WRITER, _PUB, is_asked_again=True),
    Rule(Code.RECALL_MESSAGE, WRITER, _PUB),
    Rule(Code.PULL_MESSAGE, READER, _SUB),
    Rule(Code.LITE_PULL_MESSAGE, READER, _SUB),
    # The topic of the record that is found is checked, too, whatever topic the request names.
    Rule(Code.CONSUMER_SEND_MSG_BACK, READER, (group("group", SUB),), is_asked_again=True),
    Rule(Code.QUERY_MESSAGE, READER, (topic("topic", SUB, GET),), is_asked_again=True),
    Rule(
        Code.VIEW_MESSAGE_BY_ID,
        READER,
        (named_or_cluster(topic("topic", GET, shows_messages=True), GET),),
        is_asked_again=True,
    ),
    Rule(Code.POP_MESSAGE, READER, _SUB),
    Rule(Code.PEEK_MESSAGE, READER, _SUB),
    Rule(Code.NOTIFICATION, READER, _SUB),
    # Reading how many pops wait only needs the right to read.
    Rule(Code.POLLING_INFO, READER, (topic("topic", GET), group("consumerGroup", GET))),
    Rule(Code.ACK_MESSAGE, READER, _SUB, is_batch=True),
    Rule(Code.BATCH_ACK_MESSAGE, READER, (in_body.of_acks(SUB),)),
    Rule(Code.CHANGE_MESSAGE_INVISIBLETIME, READER, _SUB),
)

_QUEUE = (topic("topic", GET),)
_OFFSETS = (
    Rule(
        Code.QUERY_CONSUMER_OFFSET,
        READER,
        (topic("topic", SUB, GET), group("consumerGroup", SUB, GET)),
    ),
    Rule(
        Code.UPDATE_CONSUMER_OFFSET,
        READER,
        (topic("topic", SUB, UPDATE), group("consumerGroup", SUB, UPDATE)),
    ),
    Rule(Code.SEARCH_OFFSET_BY_TIMESTAMP, READER, _QUEUE),
    Rule(Code.GET_MAX_OFFSET, READER, _QUEUE),
    Rule(Code.GET_MIN_OFFSET, READER, _QUEUE),
    Rule(Code.GET_EARLIEST_MSG_STORETIME, READER, _QUEUE),
)

_CLIENTS = (
    Rule(Code.HEART_BEAT, ANYBODY, (in_body.of_heartbeat(SUB),)),
    Rule(Code.UNREGISTER_CLIENT, ANYBODY, (group("consumerGroup", SUB),)),
    Rule(Code.GET_CONSUMER_LIST_BY_GROUP, READER, (group("consumerGroup", SUB, GET),)),
    Rule(Code.LOCK_BATCH_MQ, READER, (in_body.of_locks(SUB),)),
    Rule(Code.UNLOCK_BATCH_MQ, READER, (in_body.of_locks(SUB),)),
    Rule(Code.CHECK_CLIENT_CONFIG, READER, (in_body.of_client_config(SUB),)),
    Rule(Code.QUERY_ASSIGNMENT, READER, (in_body.of_assignment(SUB),)),
)

_TOPICS_AND_GROUPS = (
    Rule(Code.UPDATE_AND_CREATE_TOPIC, ADMINISTRATOR, (topic("topic", CREATE),)),
    Rule(Code.UPDATE_AND_CREATE_TOPIC_LIST, ADMINISTRATOR, (in_body.of_topics(CREATE),)),
    Rule(Code.UPDATE_AND_CREATE_STATIC_TOPIC, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.DELETE_TOPIC_IN_BROKER, ADMINISTRATOR, (topic("topic", DELETE),)),
    Rule(Code.GET_ALL_TOPIC_CONFIG, ADMINISTRATOR, (all_topics(LIST),)),
    Rule(Code.GET_TOPIC_CONFIG, ADMINISTRATOR, (topic("topic", GET),)),
    Rule(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ADMINISTRATOR, (in_body.of_group(CREATE),)),
    Rule(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        ADMINISTRATOR,
        (in_body.of_groups(CREATE),),
    ),
    Rule(Code.DELETE_SUBSCRIPTIONGROUP, ADMINISTRATOR, (group("groupName", DELETE),)),
    Rule(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_SUBSCRIPTIONGROUP_CONFIG, ADMINISTRATOR, (group("group", GET),)),
    Rule(
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        ADMINISTRATOR,
        (topic("topic", UPDATE), group("group", UPDATE)),
    ),
    Rule(Code.SET_MESSAGE_REQUEST_MODE, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.GET_ALL_MESSAGE_REQUEST_MODE, ADMINISTRATOR, (cluster(GET),)),
)

_TOPIC_AND_GROUP = (topic("topic", GET), group("group", GET))
_GROUP_OR_ALL = (named_or_cluster(group("consumerGroup", GET), GET),)
_STATISTICS = (
    Rule(Code.GET_TOPIC_STATS_INFO, ADMINISTRATOR, (topic("topic", GET),)),
    Rule(Code.QUERY_TOPIC_CONSUME_BY_WHO, ADMINISTRATOR, (topic("topic", GET),)),
    Rule(
        Code.GET_CONSUME_STATS,
        ADMINISTRATOR,
        (
            topic("topic", GET),
            in_body.topic_list("topicList", GET),
            group("consumerGroup", GET),
        ),
    ),
    Rule(Code.QUERY_CONSUME_TIME_SPAN, ADMINISTRATOR, _TOPIC_AND_GROUP),
    Rule(Code.QUERY_TOPICS_BY_CONSUMER, ADMINISTRATOR, (group("group", GET),)),
    Rule(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, ADMINISTRATOR, _TOPIC_AND_GROUP),
    Rule(Code.GET_BROKER_CONSUME_STATS, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.VIEW_BROKER_STATS_DATA, ADMINISTRATOR, (cluster(GET),)),
    Rule(
        Code.QUERY_CONSUME_QUEUE,
        ADMINISTRATOR,
        (topic("topic", GET), group("consumerGroup", GET)),
    ),
    Rule(Code.GET_CONSUMER_CONNECTION_LIST, ADMINISTRATOR, (group("consumerGroup", GET),)),
    Rule(Code.GET_PRODUCER_CONNECTION_LIST, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_ALL_PRODUCER_INFO, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_CONSUMER_RUNNING_INFO, ADMINISTRATOR, (group("consumerGroup", GET),)),
    # The message is found by its id, whatever topic the request names, as for RESUME_CHECK_HALF_MESSAGE (323).
    Rule(Code.CONSUME_MESSAGE_DIRECTLY, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ADMINISTRATOR, _TOPIC_AND_GROUP),
    Rule(Code.GET_GROUP_CONFLICTS, ADMINISTRATOR, _GROUP_OR_ALL),
    Rule(Code.GET_QUEUE_LOCKS, ADMINISTRATOR, _GROUP_OR_ALL),
    Rule(Code.GET_ALL_CONSUMER_OFFSET, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_ALL_DELAY_OFFSET, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_TIMER_CHECK_POINT, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_TIMER_METRICS, ADMINISTRATOR, (cluster(GET),)),
)

_OPERATION = (
    Rule(Code.GET_BROKER_CONFIG, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.UPDATE_BROKER_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.GET_COLD_DATA_FLOW_CTR_INFO, ADMINISTRATOR, (cluster(GET),)),
    Rule(
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        ADMINISTRATOR,
        (named_or_cluster(topic("topic", GET), GET),),
    ),
    Rule(Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.ADD_BROKER, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.REMOVE_BROKER, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.GET_BROKER_EPOCH_CACHE, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.NOTIFY_BROKER_ROLE_CHANGED, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.SET_COMMITLOG_READ_MODE, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.UPDATE_AND_CREATE_ACL_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.DELETE_ACL_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.GET_BROKER_CLUSTER_ACL_INFO, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_CREATE_USER, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_UPDATE_USER, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_DELETE_USER, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_GET_USER, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.AUTH_LIST_USER, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.AUTH_CREATE_ACL, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_UPDATE_ACL, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_DELETE_ACL, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.AUTH_GET_ACL, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.AUTH_LIST_ACL, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_BROKER_RUNTIME_INFO, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.NOTIFY_MIN_BROKER_ID_CHANGE, ADMINISTRATOR, (cluster(UPDATE),)),
    # Changes nothing here. Slaves send it, from other machines and perhaps without TLS.
    Rule(Code.EXCHANGE_BROKER_HA_INFO, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.GET_BROKER_HA_STATUS, ADMINISTRATOR, (cluster(GET),)),
    Rule(Code.RESET_MASTER_FLUSH_OFFSET, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.CLEAN_EXPIRED_CONSUMEQUEUE, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.CLEAN_UNUSED_TOPIC, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.DELETE_EXPIRED_COMMITLOG, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.POP_ROLLBACK, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(Code.RESUME_CHECK_HALF_MESSAGE, ADMINISTRATOR, (cluster(UPDATE),)),
    Rule(
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        ADMINISTRATOR,
        (topic("topic", UPDATE), group("group", UPDATE)),
    ),
    Rule(
        Code.QUERY_CORRECTION_OFFSET,
        ADMINISTRATOR,
        (topic("topic", GET), group("compareGroup", GET)),
    ),
    Rule(
        Code.CLONE_GROUP_OFFSET,
        ADMINISTRATOR,
        (topic("topic", UPDATE), group("srcGroup", UPDATE), group("destGroup", UPDATE)),
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


def request_table(answers: Iterable[Answers], gate: Gate | None = None) -> RequestTable:
    """Return the table of a broker's requests; without a gate, other machines may not send administrative ones."""
    return RequestTable(RULES, answers, gate or OwnMachineGate(_refusal))


def _refusal(rule: RequestRule, _peer: Peer) -> str:
    return (
        f"{request_name(rule.code)} is accepted from this machine only, until access control is "
        "configured"
    )
