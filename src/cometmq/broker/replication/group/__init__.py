"""A member of a broker group that elects its leader: the machine of `replication.group` on files and connections."""
