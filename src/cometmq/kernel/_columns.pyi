from cometmq.kernel.columns import SendBatch as SendBatch
