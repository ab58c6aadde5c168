from cometmq.offline.arrow_reader import read as read
