from cometmq.kernel.declines import answer_reads as answer_reads
from cometmq.kernel.declines import take_reads as take_reads
from cometmq.kernel.turn_reads import PeerEnd as PeerEnd
from cometmq.kernel.turn_reads import TurnReads as TurnReads
