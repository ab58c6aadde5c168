"""The command line `cometmq`, with one file for each family of commands.

A command imports what it needs only when it runs, so that `cometmq --help` starts quickly.
"""
