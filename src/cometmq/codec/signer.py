"""Signing of outgoing requests with one user's credentials."""

import orjson

from cometmq.codec.remoting import Command
from cometmq.codec.send_text import END, SendPieces, json_text
from cometmq.codec.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    signature,
    signed_content,
)
from cometmq.model.credentials import Credentials


class Signer:
    """Signs requests with one user's credentials."""

    def __init__(self, credentials: Credentials) -> None:
        self._secret = credentials.secret_key.encode()
        self._own = {ACCESS_KEY: credentials.access_key}
        if credentials.security_token is not None:
            self._own[SECURITY_TOKEN] = credentials.security_token
        self._own_text = "".join(
            f',"{key}":{json_text(each)}' for key, each in self._own.items()
        )

    def _signature(self, fields: dict[str, str], body: bytes) -> str:
        return signature(self._secret, signed_content(fields, body)).decode()

    def signed(self, command: Command) -> Command:
        """Return a request with access key, token (if any) and signature; raises CodecError if a field is no text, number or boolean."""
        fields = {**command.fields, **self._own}
        fields[SIGNATURE] = self._signature(fields, command.body)
        return command._replace(fields=fields)

    def signed_pieces(self, pieces: SendPieces, body: bytes) -> SendPieces:
        """Return the text pieces of a request's header (`codec.send_text`) with credentials and signature added."""
        front, queue_id, middle, back = pieces
        header = orjson.loads(f"{front}{queue_id}{middle}{back}0{END}")
        fields = {**header["extFields"], **self._own}
        signed = f'{self._own_text},"{SIGNATURE}":"{self._signature(fields, bytes(body))}"'
        # Insert after the message's fields; the back continues with the last field.
        return front, queue_id, middle, signed + back
