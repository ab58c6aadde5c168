"""The requests that send messages: decodes those that were read together, and lets `send.sends` store them.

With the compiled kernel, simple sends usually do not get here: the fast path (send.fast_path) handles them.
"""

from cometmq.broker.parts import Parts
from cometmq.broker.pull.fast_path import PullIntake
from cometmq.broker.send.admission import Admission, AdmittedSend, AnySend, Sender
from cometmq.broker.send.fast_path import SEND_CODES, Ends, SendIntake
from cometmq.broker.send.requests.answers import PeerAnswers
from cometmq.broker.send.requests.big_batches import BigBatches, is_big
from cometmq.broker.send.sends import Sends
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.remoting import RawCommand
from cometmq.kernel import KERNEL
from cometmq.model.codes import RequestCode
from cometmq.model.errors import RecordIllegal
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import answer_to_error
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, BatchHandler, Read
from cometmq.store.batch import Columns


class SendHandler(BatchHandler):
    """Handles SEND_MESSAGE 10, SEND_MESSAGE_V2 310 and SEND_BATCH_MESSAGE 320."""

    def __init__(self, sends: Sends, parts: Parts, *, pulls: PullIntake | None = None) -> None:
        """`pulls` is the fast path of pulls, which the fast path of sends offers other requests."""
        self._sends = sends
        self._big_batches = BigBatches(parts, sends, admit)
        self.intake: SendIntake | None = None
        # Without the compiled kernel there is no fast path. It cannot write records with a CRC property either.
        if KERNEL == "fast" and not parts.store.settings.is_whole_crc_written:
            self.intake = SendIntake(sends, parts, refuse=self._refuse_taken, pulls=pulls)
        self.answers: Answers = dict.fromkeys(SEND_CODES, self)

    def handle(self, reads: list[Read]) -> None:
        """Store messages that were read together, most with one write, and answer each connection, maybe later."""
        for peer, commands in reads:
            answers = PeerAnswers(peer, self._sends.host)
            for command in commands:
                self._put(command, peer, answers)
        self._sends.store()

    def written(self) -> None:
        """Dispatch the stored messages to consumers, and notify the flusher."""
        self._sends.written()

    def _put(self, command: RawCommand, peer: Peer, answers: PeerAnswers) -> None:
        try:
            if is_big(command):
                self._sends.store()  # The sends put so far come first.
                self._big_batches.begin(command, peer)
                return
            admitted = admit(self._sends.admission, command, peer)
        except Exception as error:  # noqa: BLE001  As net.dispatcher: other requests are not lost.
            peer.answer(command, answer_to_error(error, command[0]))
            return
        start = None if command[1] & ONEWAY else admitted.answer_start
        self._sends.put(admitted, (command[2], start, admitted.transaction_id), answers)

    def _refuse_taken(self, batch: Columns, ends: Ends, error: Exception) -> None:
        """Answer the fast path's sends that could not be stored; but if one record is illegal, store the others."""
        start, puts = 0, batch.puts()
        for peer, end in ends:
            answers, pending = PeerAnswers(peer, self._sends.host), batch.pending(start, end)
            if not isinstance(error, RecordIllegal):
                self._sends.refuse(pending, error, answers)
                pending = []
            for one, (first, count) in zip(pending, batch.requests(start, end), strict=False):
                together = puts[first : first + count]
                admitted = AdmittedSend(together, "", one[2], is_batch=count > 1)
                self._sends.put(admitted, one, answers)
            start = end
        self._sends.store()


def admit(admission: Admission, command: RawCommand, sender: Sender) -> AdmittedSend:
    """Decode a send's header, check the send and return the records to store.

    Raises:
        RequestError: The header cannot be decoded, or the send is refused; the code says why.
        CodecError, RecordIllegal: As `Admission.admit`.
    """
    code, fields, body = command[0], command[6], command[7]
    header: type[AnySend] = SendRequest if code == RequestCode.SEND_MESSAGE else SendRequestV2
    request: AnySend = decode_fields(header, fields)
    is_batch = code == RequestCode.SEND_BATCH_MESSAGE
    return admission.admit(request, body, sender, is_batch=is_batch)
