"""Records to Arrow columns, many at once.

Next: cometmq.spark.columns.window
"""
