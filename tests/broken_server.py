"""A web server on 127.0.0.1 that breaks in every way a test asks for, and writes down what it was asked."""

import contextlib
import http.server
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from trainmark.datasets.fetching import download

PROXY_VARIABLES = [name for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())]


def without_waits(monkeypatch) -> None:
    """No waits between attempts, and no proxy of the machine's own."""
    monkeypatch.setattr(download, "RETRIES", download.RETRIES.new(backoff_factor=0, backoff_jitter=0))
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the n-th request for a path with the n-th answer that is set for it, and then with the last one."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.close_connection = True
        path = self.path.partition("?")[0]
        with self.server.lock:
            earlier = self.server.paths.count(path)
            self.server.paths.append(path)
            self.server.ranges.append(self.headers["Range"])
        answers = self.server.answers[path]
        with contextlib.suppress(ConnectionError):
            answers[min(earlier, len(answers) - 1)](self)

    def head(self, status: int = 200, **headers: str | int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()

    def head_of_range(self) -> bytes:
        """Send the head for what was asked for; return its bytes."""
        content = self.server.content
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        start = int(asked[1]) if asked else 0
        if asked and start >= len(content):
            self.head(416, Content_Range=f"bytes */{len(content)}", Content_Length=0)
            return b""
        if asked:
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.head(206, Content_Range=span, Content_Length=len(content) - start)
        else:
            self.head(Content_Length=len(content))
        return content[start:]

    def send(self, content: bytes) -> None:
        self.wfile.write(content)
        with self.server.lock:
            self.server.sent_bytes += len(content)


Answer = Callable[[Handler], None]


class Server(http.server.ThreadingHTTPServer):
    """answers: of each path; paths, ranges: of the requests so far; content: the right file."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.answers = content, {"/right": [whole]}
        self.paths, self.ranges, self.sent_bytes = [], [], 0
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        """A client that refuses the certificate is no trouble of the server's."""

    def address(self, *answers: Answer, path: str = "/a") -> str:
        """An address that gives these answers in turn."""
        self.answers[path] = list(answers)
        return f"{self.url}{path}"


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            server.shutdown()
            thread.join()


# --- answers ------------------------------------------------------------------------------------------------------


def whole(handler: Handler) -> None:
    handler.send(handler.head_of_range())


def without_ranges(handler: Handler) -> None:
    handler.head(Content_Length=len(handler.server.content))
    handler.send(handler.server.content)


def without_length(handler: Handler) -> None:
    """The end of the connection is the end of the file."""
    handler.head()
    handler.send(handler.server.content)


def closes_after(sent_bytes: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send(handler.head_of_range()[:sent_bytes])

    return answer


def resets_after(sent_bytes: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send(handler.head_of_range()[:sent_bytes])
        handler.wfile.flush()
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    return answer


def hangs_after(sent_bytes: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send(handler.head_of_range()[:sent_bytes])
        handler.server.stop.wait(30)

    return answer


def hangs(handler: Handler) -> None:
    handler.server.stop.wait(30)


def status(code: int, **headers: str | int) -> Answer:
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def redirect(location: str) -> Answer:
    return status(302, Location=location)


def gives(content: bytes, code: int = 200, **headers: str | int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.head(code, **{"Content_Length": len(content), **headers})
        handler.send(content)

    return answer


def at_most(range_bytes: int) -> Answer:
    """A server that gives no more than so many bytes at a time."""

    def answer(handler: Handler) -> None:
        content = handler.server.content
        start = int((handler.headers["Range"] or "bytes=0-")[len("bytes=") : -1])
        piece = content[start : start + range_bytes]
        span = f"bytes {start}-{start + len(piece) - 1}/{len(content)}"
        handler.head(206, Content_Range=span, Content_Length=len(piece))
        handler.send(piece)

    return answer


def chunked(content: bytes, pieces: int = 1, end: bool = True) -> Answer:
    """`content` so many times over, with no length said before; without an end where `end` is false."""

    def answer(handler: Handler) -> None:
        handler.head(Transfer_Encoding="chunked")
        for _ in range(pieces):
            handler.wfile.write(b"%x\r\n" % len(content))
            handler.send(content)
            handler.wfile.write(b"\r\n")
        handler.wfile.write(b"0\r\n\r\n" if end else b"")

    return answer
