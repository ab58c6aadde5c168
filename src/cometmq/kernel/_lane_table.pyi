from cometmq.kernel.declines import LaneTable as LaneTable
