from cometmq.kernel.queue_ends import QueueEnd as QueueEnd
