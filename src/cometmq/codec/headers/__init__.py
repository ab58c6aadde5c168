"""Custom headers: a frozen dataclass for each request and answer that has one.

`codec.fields` encodes and decodes them. The wire name of an attribute is its camelCase form.
"""
