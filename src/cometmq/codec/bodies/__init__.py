"""Bodies of commands and files in fastjson's form of JSON, a module for each family: `encode_x` and `decode_x`.

Most are written as fastjson writes them (integer keys unquoted, objects as keys). Decoding accepts that form
(docs/format/fastjson.md; in most requests up to 8 KiB) and standard JSON. A malformed body raises CodecError.
"""
