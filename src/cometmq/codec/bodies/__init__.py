"""Bodies of commands and files in fastjson's form of JSON, a module for each family: `encode_x` and `decode_x`.

Bodies are written as fastjson writes them (properties in alphabetical order, integer keys unquoted, objects as keys),
and decoded from every form that peers write (docs/format/fastjson.md). Decoding a malformed body raises CodecError.
"""
