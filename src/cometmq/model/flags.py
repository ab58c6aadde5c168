"""Bit flags of records (sysFlag), pull requests, topics, permissions and commands, and tests of a permission.

Source: protocol constants of RocketMQ 5.3.3 (MessageSysFlag, PullSysFlag, TopicSysFlag, PermName, RemotingCommand).
"""

# sysFlag of a record, MessageSysFlag.
COMPRESSED = 1
MULTI_TAGS = 2
TRANSACTION_PREPARED = 4
TRANSACTION_COMMIT = 8
TRANSACTION_ROLLBACK = 12  # A two-bit field: 0 none, 4 prepared, 8 commit, 12 rollback.
TRANSACTION_MASK = 12
BORN_HOST_V6 = 16
STORE_HOST_V6 = 32
NEED_UNWRAP = 64
INNER_BATCH = 128
COMPRESSION_MASK = 0x700  # Bits 8-10 are the algorithm; 0 means zlib of clients before 5.x.
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300

# sysFlag of a pull request, PullSysFlag.
PULL_COMMIT_OFFSET = 1
PULL_SUSPEND = 2
PULL_SUBSCRIPTION = 4

# Permission of a topic or broker, PermName.
PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = PERM_READ | PERM_WRITE

# topicSysFlag, TopicSysFlag.
TOPIC_UNIT = 1
TOPIC_UNIT_SUB = 2

# Flag of a command, RemotingCommand.
RESPONSE = 1
ONEWAY = 2


def is_readable(perm: int) -> bool:
    """Return whether consumers may read with this permission."""
    return perm & PERM_READ != 0


def is_writable(perm: int) -> bool:
    """Return whether producers may send with this permission."""
    return perm & PERM_WRITE != 0


def is_inherited(perm: int) -> bool:
    """Return whether topics may be created automatically from a topic with this permission."""
    return perm & PERM_INHERIT != 0
