"""Headers of requests 50, 51 and 53, and the answer to 52, about ACL 1.0 accounts (AclConfig of RocketMQ 4.9.8)."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class UpdateAccount:
    """Header to create or change an account, UPDATE_AND_CREATE_ACL_CONFIG 50; None leaves a value unchanged.

    Attributes:
        access_key: Name of the account.
        secret_key: Secret that it signs with; required for a new account.
        white_remote_address: Addresses from which it need not sign, if that is allowed.
        admin: Whether it may do everything.
        default_topic_perm: Permission for topics without an entry.
        default_group_perm: Permission for groups without an entry.
        topic_perms: Entries `name=permission`, separated by commas; they replace all entries for topics.
        group_perms: Likewise for groups.
    """

    access_key: str
    secret_key: str | None = field(default=None, repr=False)
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteAccount:
    """Header to delete an account, DELETE_ACL_CONFIG 51."""

    access_key: str


@dataclass(frozen=True, slots=True)
class UpdateWhiteAddresses:
    """Header to set the addresses of clients that need no signature, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG 53."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


@dataclass(frozen=True, slots=True)
class AccountVersions:
    """Header of the answer to GET_BROKER_CLUSTER_ACL_INFO 52; versions are JSON."""

    version: str
    all_acl_file_version: str = field(metadata=wire("allAclFileVersion"))
    broker_name: str
    broker_addr: str
    cluster_name: str
