"""Records to Arrow columns, many at once.

Next: cometmq.offline.columns.window
"""
