r"""The JSON header of a send, as text around what differs from one send to the next.

A producer's headers are all but equal: a topic's sends share the front, those to one broker the back.

    {"code":310,"extFields":{"a":"group","b":"topic","c":"TBW102","d":"4","e":"   front, of a topic
    3                                                                          the queue
    ","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001...\u0002"        middle, of a message
    ,"n":"broker-a"},"flag":0,"language":"PYTHON","opaque":                    back, of a broker
    17                                                                         the opaque
    ,"serializeTypeCurrentRPC":"JSON","version":479}                           END

So a message costs one `str` of its middle and one of the whole, and no dictionary; a test holds this
equal to what `encode_command` makes of the same fields (`codec.headers.send.SendRequestV2`).
"""

import orjson

from cometmq.model.bounded_cache import keep_short
from cometmq.model.codes import VERSION, Language

# Front, queue, middle, back.
SendPieces = tuple[str, int, str, str]

END = f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'


def json_text(text: str) -> str:
    """A text as JSON writes it, quotes included.

    Raises:
        TypeError: it cannot be UTF-8.
    """
    return orjson.dumps(text).decode()


def front_text(code: int, group: str, topic: str, default_topic: str, queues: int) -> str:
    """The text of a send's header before the queue's number.

    Args:
        code: SEND_MESSAGE_V2 or a request like it.
        group: of the producer.
        topic: where to.
        default_topic: whose settings a topic gets that the broker does not know.
        queues: how many it gets then.
    """
    return (
        f'{{"code":{code},"extFields":{{"a":{json_text(group)},"b":{json_text(topic)},'
        f'"c":{json_text(default_topic)},"d":"{queues}","e":"'
    )


def middle_text(sys_flag: int, born_ms: int, flag: int, properties: str, more: str = "") -> str:
    """The text of a send's header behind the queue's number that belongs to the message.

    Args:
        sys_flag: bits of `model.flags`.
        born_ms: when the message was made, ms since 1970.
        flag: the user's number.
        properties: as JSON writes them (`json_text`).
        more: further fields as JSON writes them, each with a comma in front.
    """
    return f'","f":"{sys_flag}","g":"{born_ms}","h":"{flag}","i":{properties}{more}'


@keep_short(1024, length_max=255)  # Brokers are few.
def back_text(broker_name: str, command_flag: int = 0) -> str:
    """The text of a send's header between the message's own fields and the opaque.

    Args:
        broker_name: whom it goes to.
        command_flag: `model.flags.ONEWAY`, or 0.
    """
    return f',"n":{json_text(broker_name)}{tail_text(command_flag)}'


def tail_text(command_flag: int = 0) -> str:
    """The text between the last field of a request and its opaque.

    Args:
        command_flag: as in `back_text`.
    """
    return f'}},"flag":{command_flag},"language":"{Language.PYTHON.name}","opaque":'
