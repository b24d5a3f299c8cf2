"""Connect protocol, JSON codec: errors and the envelopes of a stream."""

import json
import struct

HTTP_STATUS = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "unimplemented": 404,
    "already_exists": 409,
    "internal": 500,
    "unknown": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
}


class RpcError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.status = HTTP_STATUS[code]

    def body(self):
        return {"code": self.code, "message": str(self)}


def envelope(message, flag=0):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flag, len(data)) + data


def end_of_stream(error=None):
    return envelope({} if error is None else {"error": error.body()}, 2)


def open_envelope(data):
    """The one message of a server stream's request."""
    flag, length = struct.unpack(">BI", data[:5])
    if flag & 1:
        raise RpcError("unimplemented", "compressed messages are not understood")
    return json.loads(data[5 : 5 + length] or b"{}")
