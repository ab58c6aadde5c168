"""The command line `cometmq`: commands, and what they share.

A command imports most of what it needs only when it runs, so that `cometmq --help` starts quickly.
"""
