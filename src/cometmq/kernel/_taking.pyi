from cometmq.kernel.declines import take_sends as take_sends
