"""The requests of clients as typed methods; no other part of a client makes a request `Command` (docs/design/0053).

Two kinds are not here: sends (`producer.encoded_send`) and repeated pulls (`consumer.pull.pulls`) are encoded as text.
"""
