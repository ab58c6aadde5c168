"""The request table of the nameserver: each code, the required right and the touched resources.

Handlers name the codes that they answer; this table says who may send them. Without access control, operators'
requests, which change something or read the settings, are allowed from this machine at most. A broker's requests may
come from anywhere, but nameserver.owners usually lets only its own host act for a living broker.
"""

from collections.abc import Iterable

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
    topic,
)

ANYBODY, BROKER, ADMINISTRATOR = Right.ANYBODY, Right.BROKER, Right.ADMINISTRATOR
GET, UPDATE = (cluster(Action.GET),), (cluster(Action.UPDATE),)
Code, Rule = RequestCode, RequestRule

RULES = (
    # Requests of brokers.
    Rule(Code.REGISTER_BROKER, BROKER, UPDATE),
    Rule(Code.UNREGISTER_BROKER, BROKER, UPDATE),
    Rule(Code.REGISTER_TOPIC_IN_NAMESRV, BROKER, UPDATE),
    Rule(Code.BROKER_HEARTBEAT, BROKER, UPDATE),
    Rule(Code.QUERY_DATA_VERSION, BROKER, GET),
    Rule(Code.GET_BROKER_MEMBER_GROUP, BROKER, GET),
    # Requests of clients and tools.
    Rule(
        Code.GET_ROUTEINFO_BY_TOPIC,
        ANYBODY,
        (topic("topic", Action.PUB, Action.SUB, Action.GET),),
    ),
    Rule(Code.GET_BROKER_CLUSTER_INFO, ANYBODY, GET),
    Rule(Code.GET_MISSING_BROKERS, ANYBODY, GET),
    Rule(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, ANYBODY, GET),
    Rule(Code.GET_TOPICS_BY_CLUSTER, ANYBODY, (all_topics(Action.LIST),)),
    Rule(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, ANYBODY, GET),
    Rule(Code.GET_UNIT_TOPIC_LIST, ANYBODY, GET),
    Rule(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, ANYBODY, GET),
    Rule(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, ANYBODY, GET),
    Rule(Code.GET_KV_CONFIG, ANYBODY, GET),
    Rule(Code.GET_KVLIST_BY_NAMESPACE, ANYBODY, GET),
    # Requests of operators.
    Rule(Code.PUT_KV_CONFIG, ADMINISTRATOR, UPDATE),
    Rule(Code.DELETE_KV_CONFIG, ADMINISTRATOR, UPDATE),
    Rule(Code.WIPE_WRITE_PERM_OF_BROKER, ADMINISTRATOR, UPDATE),
    Rule(Code.ADD_WRITE_PERM_OF_BROKER, ADMINISTRATOR, UPDATE),
    Rule(Code.DELETE_TOPIC_IN_NAMESRV, ADMINISTRATOR, UPDATE),
    Rule(Code.UPDATE_NAMESRV_CONFIG, ADMINISTRATOR, UPDATE),
    Rule(Code.GET_NAMESRV_CONFIG, ADMINISTRATOR, GET),
)


def request_table(answers: Iterable[Answers], gate: Gate | None = None) -> RequestTable:
    """Create the request table of a nameserver; without a gate, at most this machine may send operators' requests."""
    return RequestTable(RULES, answers, gate or OwnMachineGate(_refusal))


def _refusal(rule: RequestRule, peer: Peer) -> str:
    return (
        f"{request_name(rule.code)} is only allowed from the machine of the nameserver, not "
        f"from {peer.address}, because access control is off"
    )
