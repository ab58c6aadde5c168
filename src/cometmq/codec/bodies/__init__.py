"""Bodies of commands and files in fastjson's form of JSON, a module for each family: `encode_x` and `decode_x`.

Most are written as fastjson writes them (integer keys unquoted, objects as keys); decoding accepts that form and
standard JSON (docs/format/fastjson.md). Decoding a malformed body raises CodecError.
"""
