"""fastjson: what Java wrote is read, what we write is what Java would, and hostile texts end soon."""

import time

import pytest

from cometmq.codec.fastjson import FrozenObject, JavaList, dumps, int_keys, loads
from cometmq.model.errors import CodecError

# Each pair was checked against fastjson 1.2.83 itself.
# What takes a step for each character takes a second here; what goes back over them takes hours.
SOON_SECONDS = 60

LENIENT = [
    ("{a:1,'b':'c',}", {"a": 1, "b": "c"}),
    ("{0:1,1:2}", {0: 1, 1: 2}),
    ("{0:101,1:-98\n\t\t}", {0: 101, 1: -98}),
    ('{-1:"x",5000000000:[]}', {-1: "x", 5000000000: []}),
    ('{/*x*/"a":1//y\n}', {"a": 1}),
    ("[1,2,]", [1, 2]),
    ("[,1]", [1]),
    ("[1 2]", [1, 2]),
    ("{,a:1}", {"a": 1}),
    ("{a:NaN,b:undefined,c:null}", {"a": None, "b": None, "c": None}),
    ("{a:+1,b:01,c:1.,d:-2.5e3}", {"a": 1, "b": 1, "c": 1.0, "d": -2500.0}),
    (r"{a:'\x41\'\u0041\n\/'}", {"a": "A'A\n/"}),
    ('{a:"x\ny"}', {"a": "x\ny"}),
    ("{null:1,true:2,$x:3,_y:4}", {"null": 1, "true": 2, "$x": 3, "_y": 4}),
    ("{[1]:2}", {(1,): 2}),
    ('{"a":1,a:2}', {"a": 2}),
    (r"['\ud83d\ude00']", ["\U0001f600"]),
    ("[true,false]//", [True, False]),
    ("", None),
    (" \n", None),
]


@pytest.mark.parametrize(("text", "value"), LENIENT)
def test_what_fastjson_takes_is_read(text, value):
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":0x10}', "{a-b:1}", "{a:1;b:2}", "{a:.5}", "{a:True}", "{a:b}", "{a.b:1}", '{"a"1}', "{ä:1}",
        '{"a":1}}', "{'a':1} x", "{", "[", "{a", "{a:", "'", '"', "/*", "{0:1,2}", r"'\q'", "{a:1-}", "1.2.3",
        "9" * 5000, "{0:" + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_codec_error_with_its_place(text):
    with pytest.raises(CodecError, match="at character"):
        loads(text)


def test_an_object_as_key_is_a_value_to_look_up():
    table = loads('{{"brokerName":"a","queueId":0,"topic":"T"}:{"x":1},{"l":[1,{}]}:2}')
    assert table[FrozenObject({"topic": "T", "queueId": 0, "brokerName": "a"})] == {"x": 1}
    assert table[FrozenObject({"l": (1, FrozenObject({}))})] == 2
    key = next(iter(table))
    assert (key["queueId"], len(key), dict(key)["topic"]) == (0, 3, "T")
    assert key != {"topic": "T"}
    assert "queueId" in repr(key)


def test_number_keys_of_either_form_become_ints():
    assert int_keys(loads('{"0":"a","1":"b"}')) == int_keys(loads('{0:"a",1:"b"}'))
    with pytest.raises(CodecError, match="'x'"):
        int_keys({"x": 1})


@pytest.mark.parametrize(
    ("open_", "close"), [("[", "]"), ('{"a":', "}"), ("{a:", "}"), ("{0:", "}"), ("[,", "]")]
)
def test_32_levels_are_read_and_33_refused(open_, close):
    assert loads(open_ * 32 + "1" + close * 32) is not None
    with pytest.raises(CodecError, match="32 levels"):
        loads(open_ * 33 + "1" + close * 33)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "{{" * 500_000,
        '{"a":' * 300_000,
        "'" + "\\'" * 500_000,
        "/*" * 500_000,
        "/**/" * 250_000 + "x",
        "{" + "0:1," * 250_000,
        "1" * 1_000_000,
        "," * 1_000_000 + "x",
        "//\n" * 300_000 + "}",
    ],
)
def test_a_hostile_megabyte_ends_soon(text):
    before = time.monotonic()
    with pytest.raises(CodecError):
        loads(text)
    assert time.monotonic() - before < SOON_SECONDS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('[{"a":1},{"$ref":"$[0]"}]', [{"a": 1}, {"a": 1}]),
        (
            r'{"a%b@c":{"q":3},"d":{"$ref":"$.a\\%b\\@c"},im:{3:{"x":1}},"x":{"$ref":"$.im[3]"}}',
            {"a%b@c": {"q": 3}, "d": {"q": 3}, "im": {3: {"x": 1}}, "x": {"x": 1}},
        ),
        (
            '{"li":[{"q":3}],"l2":{"$ref":"$.li[0]"},"m":{"$ref":"$[\'li\']"}}',
            {"li": [{"q": 3}], "l2": {"q": 3}, "m": [{"q": 3}]},
        ),
        (
            '{"a":{"$ref":"$.b"},"b":{"$ref":"$.c"},"c":{"x":1}}',
            {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}},
        ),
        ('{"m":{"3":{"x":1}},"n":{"$ref":"$.m[3]"}}', {"m": {"3": {"x": 1}}, "n": {"x": 1}}),
        ('{"$ref":5,"x":"$ref"}', {"$ref": 5, "x": "$ref"}),
        ('"$ref"', "$ref"),
        ('//{"$ref":"$"}', None),
    ],
)
def test_references_become_what_they_name(text, value):
    assert loads(text) == value


def test_a_reference_is_the_same_object():
    body = loads('[{"a":1},{"$ref":"$[0]"}]')
    assert body[0] is body[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{a:"\xff"}', "UTF-8"),
        ('{"a":{"$ref":"$.zz"}}', "has no target"),
        ('[{"$ref":"$[7]"}]', "has no target"),
        ('[{"$ref":"$[99999999999999999999999999999999]"}]', "has no target"),
        ('{"a":1,"b":{"$ref":"$.a.c"}}', "has no target"),
        ('{"a":{"$ref":"elsewhere"}}', "is not a path"),
        ('{"a":{"$ref":"$.."}}', "is not a path"),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', "circular"),
        ('{"a":{"$ref":"$"}}', "inside itself"),
        ('{"a":{"$ref":"@"}}', "inside itself"),
        ('{"a":{"b":{"$ref":".."}}}', "inside itself"),
    ],
)
def test_references_to_nothing_or_without_end_and_what_is_no_text_are_refused(text, words):
    with pytest.raises(CodecError, match=words):
        loads(text)


def test_a_few_references_cannot_spell_out_a_billion_objects():
    links = [f'"k{n}":[{{"$ref":"$.k{n + 1}"}},{{"$ref":"$.k{n + 1}"}}]' for n in range(29)]
    with pytest.raises(CodecError, match="expand"):
        loads("{" + ",".join(links) + ',"k29":[]}')


KEY = FrozenObject({"brokerName": "a", "queueId": 3, "topic": "T"})
EMPTY_INSIDE = {"d": 0.001, "nn": {"z": None}}
# The indented forms are what fastjson 1.2.83 printed for the same Java objects.
PRETTY = [
    ({}, "{}"),
    ({"a": {}, "n": None, "l": [], "im": {}}, '{\n\t"a":{},\n\t"l":[],\n\t"im":{}\n}'),
    ({0: 12, 1: 3}, "{0:12,1:3\n}"),
    ({"s": 1, 1: 2, "t": 3, 2: 3}, '{\n\t"s":1,1:2,\n\t"t":3,2:3\n}'),
    (
        {-1: EMPTY_INSIDE, 5000000000: "x"},
        '{-1:{\n\t\t"d":0.001,\n\t\t"nn":{\n\t\t}\n\t},5000000000:"x"\n}',
    ),
    (
        {KEY: 7, FrozenObject({"z": 1}): 8},
        '{{\n\t\t"brokerName":"a",\n\t\t"queueId":3,\n\t\t"topic":"T"\n\t}:7,{\n\t\t"z":1\n\t}:8\n}',
    ),
    (
        {"o": JavaList([1, 2]), "s": ["p", "q"], "vs": JavaList([{"x": 1}])},
        '{\n\t"o":[\n\t\t1,\n\t\t2\n\t],\n\t"s":["p","q"],\n\t"vs":[\n\t\t{\n\t\t\t"x":1\n\t\t}\n\t]\n}',
    ),
    (JavaList([None, 1]), "[\n\tnull,\n\t1\n]"),
    (JavaList(), "[]"),
    ("text", '"text"'),
]


@pytest.mark.parametrize(("value", "text"), PRETTY)
def test_the_indented_form_is_javas(value, text):
    assert dumps(value, pretty=True) == text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "a", "b": None, "c": [None]}, '{0:"a","c":[null]}'),
        ({"a": 1, "b": None}, '{"a":1}'),
        ({KEY: {0: 1}}, '{{"brokerName":"a","queueId":3,"topic":"T"}:{0:1}}'),
        ({"k": KEY}, '{"k":{"brokerName":"a","queueId":3,"topic":"T"}}'),
        ((1, True, False, None), "[1,true,false,null]"),
        ({0: {7}, 1: frozenset({8}), 2: 1e300}, "{0:[7],1:[8],2:1.0E300}"),
    ],
)
def test_the_compact_form_is_javas(value, text):
    assert dumps(value) == text.encode()


def test_keys_are_sorted_when_asked():
    assert (
        dumps({"b": 1, "a": {"d": 2, "c": 3}}, sort_keys=True) == b'{"a":{"c":3,"d":2},"b":1}'
    )
    assert dumps({"b": 1, 10: 2, 9: 3, KEY: 4}, sort_keys=True).startswith(b'{9:3,10:2,"b":1,{')


def test_number_keys_are_quoted_for_those_who_want_standard_json():
    assert dumps({0: {"1": {2: None}}}, quote_keys=True) == b'{"0":{"1":{}}}'
    assert dumps({0: "a"}, quote_keys=True) == b'{"0":"a"}'
    assert dumps({KEY: 1}, quote_keys=True).startswith(b'{"{\\"brokerName\\":')


def test_special_characters_are_escaped_as_in_java():
    text = '\x00\x08\t\n\x0b\f\r\x1f"\\/\x7f\x9f\xa0\u2028\u2029é\U0001f600\ud800'
    escaped = '"\\u0000\\b\\t\\n\\u000B\\f\\r\\u001F\\"\\\\/\\u007F\\u009F\xa0\\u2028\\u2029é\U0001f600?"'
    assert dumps(text, pretty=True) == escaped.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"), (0.1, "0.1"), (1e-3, "0.001"), (9.99e-4, "9.99E-4"), (1e7, "1.0E7"), (-1.5e7, "-1.5E7"),
        (123456.789, "123456.789"), (1e300, "1.0E300"), (-0.0, "-0.0"), (float("nan"), "null"),
        (float("-inf"), "null"), (3.4028235e38, "3.4028235E38"), (5e-324, "5.0E-324"),
    ],
)  # fmt: skip
def test_numbers_with_a_point_are_written_as_java_does(value, text):
    assert dumps(value, pretty=True).decode() == text


def test_what_has_no_json_form_or_no_end_is_refused():
    for pretty in (True, False):
        with pytest.raises(TypeError, match="object has no JSON form"):
            dumps({0: object()}, pretty=pretty)
    value: list[object] = []
    for _ in range(32):
        value = [value]
    with pytest.raises(CodecError, match="32 levels"):
        dumps({0: value})
