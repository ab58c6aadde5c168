from cometmq.kernel.declines import answer_columns as answer_columns
from cometmq.kernel.declines import pack_columns as pack_columns
from cometmq.kernel.declines import show_columns as show_columns
from cometmq.kernel.declines import take_back as take_back
