r"""The JSON header of a send, as text pieces around the values that differ between sends.

The headers of a producer are nearly identical: most sends to one topic share the front, those to one broker the back.

    {"code":310,"extFields":{"a":"group","b":"topic","c":"TBW102","d":"4","e":"   front, of a topic
    3                                                                          the queue
    ","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001...\u0002"        middle, of a message
    ,"n":"broker-a"},"flag":0,"language":"PYTHON","opaque":                    back, of a broker
    17                                                                         the opaque
    ,"serializeTypeCurrentRPC":"JSON","version":479}                           END

An unsigned header thus needs no dictionary. A test checks that the result equals what `encode_command` makes of
the same fields (`codec.headers.send.SendRequestV2`).
"""

import orjson

from cometmq.model.bounded_cache import keep_short
from cometmq.model.codes import VERSION, Language

# Front, queue id, middle, back.
SendPieces = tuple[str, int, str, str]

END = f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'


def json_text(text: str) -> str:
    """Encode a string as JSON, including the quotes; raises TypeError if it is no valid Unicode."""
    return orjson.dumps(text).decode()


def front_text(code: int, group: str, topic: str, default_topic: str, queues: int) -> str:
    """Return the start of a send's JSON header, up to the queue id.

    `default_topic` and `queues` are for a broker that creates the topic: the topic whose settings it copies, and the
    number of queues.
    """
    return (
        f'{{"code":{code},"extFields":{{"a":{json_text(group)},"b":{json_text(topic)},'
        f'"c":{json_text(default_topic)},"d":"{queues}","e":"'
    )


def middle_text(sys_flag: int, born_ms: int, flag: int, properties: str, more: str = "") -> str:
    """Return the part of a send's header after the queue id that depends on the message.

    Args:
        sys_flag: Bits of `model.flags`.
        born_ms: Time when the message was made, ms since 1970.
        flag: Number set by the user.
        properties: Property block encoded as JSON (`json_text`).
        more: Further fields encoded as JSON, each preceded by a comma.
    """
    return f'","f":"{sys_flag}","g":"{born_ms}","h":"{flag}","i":{properties}{more}'


@keep_short(1024, length_max=255)  # Brokers are few.
def back_text(broker_name: str, command_flag: int = 0) -> str:
    """Return the back of a send's JSON header: the broker's name, flag (ONEWAY or 0) and language, up to the opaque."""
    return f',"n":{json_text(broker_name)}{tail_text(command_flag)}'


def tail_text(command_flag: int = 0) -> str:
    """Return the text of a JSON header between a request's last field and its opaque; the flag is ONEWAY or 0."""
    return f'}},"flag":{command_flag},"language":"{Language.PYTHON.name}","opaque":'
