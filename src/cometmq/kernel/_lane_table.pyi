from cometmq.kernel.lane_table import LaneTable as LaneTable
