from cometmq.kernel.declines import SendBatch as SendBatch
