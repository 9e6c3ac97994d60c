"""A provider gateway over HTTP/2 that counts what it received for each apns-id, and answers a known share
of the tokens with 410. `apns-simulator provider` counts requests only, and whether a notification was
sent twice shows in the ids alone. The frames are read and written by libnghttp2, which Pushsweep needs
anyway."""
import collections
import ctypes
import ctypes.util
import json
import socket
import ssl
import threading
import time

# Values of nghttp2.h.
END_STREAM, DATA, HEADERS, DATA_EOF = 1, 0, 1, 1
# The answer waits a moment, so that notifications are under way when a sender is killed.
LATENCY = 0.005


class Name(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("namelen", ctypes.c_size_t),
                ("valuelen", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class Frame(ctypes.Structure):
    _fields_ = [("length", ctypes.c_size_t), ("stream", ctypes.c_int32), ("type", ctypes.c_uint8),
                ("flags", ctypes.c_uint8), ("reserved", ctypes.c_uint8)]


BYTES = ctypes.POINTER(ctypes.c_ubyte)
READ = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_int32, BYTES, ctypes.c_size_t,
                        ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p, ctypes.c_void_p)
ON_FRAME = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Frame), ctypes.c_void_p)
ON_HEADER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Frame), BYTES, ctypes.c_size_t,
                             BYTES, ctypes.c_size_t, ctypes.c_uint8, ctypes.c_void_p)


class Content(ctypes.Structure):
    _fields_ = [("source", ctypes.c_void_p), ("read", READ)]


def library():
    found = ctypes.CDLL(ctypes.util.find_library("nghttp2") or "libnghttp2.so.14")
    found.nghttp2_session_mem_recv.restype = ctypes.c_ssize_t
    found.nghttp2_session_mem_recv.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    found.nghttp2_session_mem_send.restype = ctypes.c_ssize_t
    found.nghttp2_session_mem_send.argtypes = [ctypes.c_void_p, ctypes.POINTER(BYTES)]
    found.nghttp2_submit_response.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(Name), ctypes.c_size_t,
                                              ctypes.POINTER(Content)]
    found.nghttp2_submit_settings.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p, ctypes.c_size_t]
    found.nghttp2_session_del.argtypes = [ctypes.c_void_p]
    return found


class Provider:
    """Listens until the process ends."""

    def __init__(self, certificates, gone_at):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificates + "/server.pem", certificates + "/server.key")
        self.context.load_verify_locations(certificates + "/ca.pem")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["h2"])
        self.library = library()
        self.gone_at = gone_at
        self.lock = threading.Lock()
        self.forget()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def forget(self, gone=()):
        """Begins to count anew; the tokens of `gone`, in hex, are answered with 410."""
        with self.lock:
            self.received = collections.Counter()
            self.tokens = {}
            self.gone = set(gone)

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as connection:
                Conversation(self, connection).run()
        except OSError:
            # The sender was killed.
            pass

    def answer(self, apns_id, token):
        """Counts a notification, and says the status and content of its answer."""
        with self.lock:
            self.received[apns_id] += 1
            self.tokens[apns_id] = token
            if token in self.gone:
                return b"410", json.dumps({"reason": "Unregistered", "timestamp": self.gone_at}).encode()
        return b"200", b""


class Conversation:
    """One connection."""

    def __init__(self, provider, connection):
        self.provider, self.connection, self.library = provider, connection, provider.library
        self.heads, self.contents, self.complete = {}, {}, []
        self.on_header, self.on_frame, self.read = ON_HEADER(self.header), ON_FRAME(self.frame), READ(self.content)
        callbacks, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        self.library.nghttp2_session_callbacks_new(ctypes.byref(callbacks))
        self.library.nghttp2_session_callbacks_set_on_header_callback(callbacks, self.on_header)
        self.library.nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, self.on_frame)
        self.library.nghttp2_session_server_new(ctypes.byref(self.session), callbacks, None)
        self.library.nghttp2_session_callbacks_del(callbacks)

    def header(self, session, frame, name, name_length, value, value_length, flags, data):
        key = ctypes.string_at(name, name_length)
        if key in (b":path", b"apns-id"):
            self.heads.setdefault(frame.contents.stream, {})[key] = ctypes.string_at(value, value_length)
        return 0

    def frame(self, session, frame, data):
        frame = frame.contents
        if frame.type in (HEADERS, DATA) and frame.flags & END_STREAM:
            self.complete.append(frame.stream)
        return 0

    def content(self, session, stream, buffer, length, flags, source, data):
        text = self.contents.pop(stream)
        ctypes.memmove(buffer, text, len(text))
        flags[0] = DATA_EOF
        return len(text)

    def run(self):
        self.library.nghttp2_submit_settings(self.session, 0, None, 0)
        try:
            self.flush()
            while got := self.connection.recv(65536):
                if self.library.nghttp2_session_mem_recv(self.session, got, len(got)) < 0:
                    raise RuntimeError("the sender broke HTTP/2")
                # Everything that arrived is counted, whether or not its answer still arrives.
                answers = [(stream, *self.received(stream)) for stream in self.complete]
                self.complete = []
                if answers:
                    time.sleep(LATENCY)
                for answer in answers:
                    self.submit(*answer)
                self.flush()
        finally:
            self.library.nghttp2_session_del(self.session)

    def received(self, stream):
        head = self.heads.pop(stream)
        apns_id = head[b"apns-id"].decode().lower()
        return apns_id, *self.provider.answer(apns_id, head[b":path"].decode().rpartition("/")[2].lower())

    def submit(self, stream, apns_id, status, text):
        pairs = [(b":status", status), (b"apns-id", apns_id.encode())]
        names = (Name * len(pairs))(*(Name(n, v, len(n), len(v), 0) for n, v in pairs))
        content = None
        if text:
            self.contents[stream] = text
            content = ctypes.byref(Content(None, self.read))
        self.library.nghttp2_submit_response(self.session, stream, names, len(pairs), content)

    def flush(self):
        data = BYTES()
        while (count := self.library.nghttp2_session_mem_send(self.session, ctypes.byref(data))) > 0:
            self.connection.sendall(ctypes.string_at(data, count))
