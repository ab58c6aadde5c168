from cometmq.kernel.declines import count_columns as count_columns
from cometmq.kernel.tallies import Tally as Tally
from cometmq.kernel.tallies import count_puts as count_puts
