"""A member of a broker group that elects its leader: runs the state machine of `replication.group` with I/O."""
