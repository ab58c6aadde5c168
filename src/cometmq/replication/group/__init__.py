"""A broker group that elects its leader: the consensus of Raft over byte offsets of the commit log, without I/O.

See docs/design/0068-broker-group.md.
"""
