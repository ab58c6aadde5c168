from cometmq.kernel.time_counts import TimeCounts as TimeCounts
