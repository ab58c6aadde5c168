"""The command line `cometmq`: one file for each family of commands.

Whatever a command starts it imports when it runs, so that `cometmq --help` is there at once.
"""
