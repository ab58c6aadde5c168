"""Request GET_ALL_DELAY_OFFSET 45: returns the delivered offsets of the delay levels."""

from cometmq.broker.delay.feature import DelayLevels
from cometmq.model.codes import RequestCode
from cometmq.net.answering import body_of, by_code
from cometmq.net.requests import Answers


def delay_answers(levels: DelayLevels) -> Answers:
    """Return the handler of the request for the next offset to deliver of each delay level, as in delayOffset.json."""
    return {RequestCode.GET_ALL_DELAY_OFFSET: by_code(levels.offsets_text, body_of(str.encode))}
