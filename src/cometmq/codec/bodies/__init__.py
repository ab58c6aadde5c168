"""JSON bodies of commands and files, a module for each family: `encode_x` and `decode_x`.

Written as fastjson writes them (properties in alphabetical order, integer keys unquoted), read in
every form that peers write (docs/format/fastjson.md). A body that means nothing is a CodecError.
"""
