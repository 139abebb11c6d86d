"""Fetching: the right file from the first place that has it, and one sentence where no place has.

Every address is a folder of the test's own or a server on 127.0.0.1.
"""

import functools
import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from trainmark.download import fetch_dataset, verify, without_credentials
from trainmark.errors import DataError

CONTENT = b"the right file\n" * 100_000  # more than one chunk
WRONG = b"<html>log in first</html>\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "a.gz"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; writes down what was asked for; breaks off where the path says so."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.headers.append(dict(self.headers))
        if self.path.startswith("/broken-off/"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])
            return
        if self.path.startswith("/stalled/"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.server.stop.wait(30)
            return
        super().do_GET()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server over the folder `web`, with `url`, `asked` and `headers`."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "web").mkdir()
    handler = functools.partial(Handler, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.asked, running.headers, running.stop = [], [], threading.Event()
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.stop.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def raw(tmp_path) -> Path:
    """Where the files go; it does not exist yet."""
    return tmp_path / "results" / "raw"


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def entry(*urls: str) -> dict:
    return {"files": [{"name": NAME, "sha256": SHA256, "urls": list(urls)}]}


def came_from(source: str) -> list[dict]:
    return [{"file": NAME, "sha256": SHA256, "from": source}]


def only_the_file(raw: Path) -> None:
    """The right file is there, and nothing beside it."""
    assert [path.name for path in raw.iterdir()] == [NAME]
    assert (raw / NAME).read_bytes() == CONTENT


def message_of(*arguments) -> str:
    with pytest.raises(DataError) as caught:
        fetch_dataset(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- where a file may come from -----------------------------------------------------------------------------------


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_mirror_that_is_a_folder(tmp_path, raw, slash):
    put(tmp_path / "mirror" / "set" / NAME)
    mirror = f"{tmp_path}/mirror{slash}"
    assert fetch_dataset("set", entry("file:///not-there"), mirror, raw) == came_from(f"{tmp_path}/mirror/set/{NAME}")
    only_the_file(raw)


def test_a_mirror_that_is_a_file_address(tmp_path, raw):
    put(tmp_path / "my mirror" / "set" / NAME)
    mirror = (tmp_path / "my mirror").as_uri()
    assert "%20" in mirror
    assert fetch_dataset("set", entry(), mirror, raw) == came_from(f"{mirror}/set/{NAME}")
    only_the_file(raw)


def test_a_mirror_that_is_a_web_address(tmp_path, raw, server):
    put(tmp_path / "web" / "data" / "set" / NAME)
    found = fetch_dataset("set", entry(f"{server.url}/public"), f"{server.url}/data/", raw)
    assert found == came_from(f"{server.url}/data/set/{NAME}")
    assert server.asked == [f"/data/set/{NAME}"], "the public address is not asked"
    only_the_file(raw)


def test_a_mirror_with_a_query_keeps_it_behind_the_path(tmp_path, raw, server):
    """An address of Azure's storage carries its key so."""
    put(tmp_path / "web" / "data" / "set" / NAME)
    found = fetch_dataset("set", entry(), f"{server.url}/data/?sig=to-ken&x=/y", raw)
    assert found == came_from(f"{server.url}/data/set/{NAME}")
    assert server.asked == [f"/data/set/{NAME}?sig=to-ken&x=/y"]


def test_a_mirror_in_the_home_folder(tmp_path, raw, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "mirror" / "set" / NAME)
    assert fetch_dataset("set", entry(), "~/mirror", raw) == came_from(f"{tmp_path}/mirror/set/{NAME}")
    only_the_file(raw)


def test_the_public_addresses_in_their_order_where_there_is_no_mirror(tmp_path, raw, server):
    put(tmp_path / "web" / "second")
    put(tmp_path / "web" / "third")
    found = fetch_dataset("set", entry(*(f"{server.url}/{name}" for name in ("first", "second", "third"))), None, raw)
    assert found == came_from(f"{server.url}/second")
    assert server.asked == ["/first", "/second"]
    only_the_file(raw)


def test_the_file_itself_is_asked_for_and_not_a_compressed_form_of_it(tmp_path, raw, server):
    put(tmp_path / "web" / "a")
    fetch_dataset("set", entry(f"{server.url}/a"), None, raw)
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_several_files_each_from_its_own_place(tmp_path, raw):
    put(tmp_path / "mirror" / "set" / "one", b"1")
    put(tmp_path / "elsewhere", b"2")
    files = [
        {"name": "one", "sha256": hashlib.sha256(b"1").hexdigest(), "urls": []},
        {"name": "two", "sha256": hashlib.sha256(b"2").hexdigest(), "urls": [(tmp_path / "elsewhere").as_uri()]},
    ]
    found = fetch_dataset("set", {"files": files}, str(tmp_path / "mirror"), raw)
    assert [source["from"] for source in found] == [
        f"{tmp_path}/mirror/set/one",
        (tmp_path / "elsewhere").as_uri(),
    ]
    assert {path.name: path.read_bytes() for path in raw.iterdir()} == {"one": b"1", "two": b"2"}


def test_a_dataset_that_a_package_carries(raw):
    assert fetch_dataset("digits", {"embedded_in": "scikit-learn"}, "/not/asked", raw) == [
        {"file": None, "from": "scikit-learn"}
    ]
    assert raw.is_dir() and not list(raw.iterdir())


# --- places that don't have it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [WRONG, b"", CONTENT[:-1], CONTENT + b"\n"], ids=["page", "empty", "short", "long"])
def test_wrong_bytes_in_the_mirror_and_the_next_place_is_asked(tmp_path, raw, server, wrong):
    put(tmp_path / "mirror" / "set" / NAME, wrong)
    put(tmp_path / "web" / "right")
    found = fetch_dataset("set", entry(f"{server.url}/right"), str(tmp_path / "mirror"), raw)
    assert found == came_from(f"{server.url}/right")
    only_the_file(raw)


def test_a_web_server_that_gives_something_else(tmp_path, raw, server):
    put(tmp_path / "web" / "wrong", WRONG)
    put(tmp_path / "web" / "right")
    assert fetch_dataset("set", entry(f"{server.url}/wrong", f"{server.url}/right"), None, raw) == came_from(
        f"{server.url}/right"
    )
    only_the_file(raw)


def test_a_connection_that_breaks_off_and_the_next_place_is_asked(tmp_path, raw, server):
    put(tmp_path / "web" / "right")
    urls = (f"{server.url}/broken-off/a", f"{server.url}/right")
    assert fetch_dataset("set", entry(*urls), None, raw) == came_from(f"{server.url}/right")
    only_the_file(raw)


def test_a_connection_that_breaks_off_everywhere(raw, server):
    message = message_of("set", entry(f"{server.url}/broken-off/a"), None, raw)
    assert message.startswith(
        f"{NAME} of the dataset set could be had from none of 1 places ({server.url}/broken-off/a: "
        "the connection broke off (ProtocolError)); "
    )
    assert not list(raw.iterdir())


def test_a_server_that_stops_answering_and_the_next_place_is_asked(tmp_path, raw, server, monkeypatch):
    monkeypatch.setattr("trainmark.download.TIMEOUT_SECONDS", 0.2)
    put(tmp_path / "web" / "right")
    urls = (f"{server.url}/stalled/a", f"{server.url}/right")
    assert fetch_dataset("set", entry(*urls), None, raw) == came_from(f"{server.url}/right")
    only_the_file(raw)


def test_a_server_that_stops_answering_everywhere(raw, server, monkeypatch):
    monkeypatch.setattr("trainmark.download.TIMEOUT_SECONDS", 0.2)
    message = message_of("set", entry(f"{server.url}/stalled/a"), None, raw)
    assert f"({server.url}/stalled/a: no answer in 0.2 s (ReadTimeoutError)); " in message
    assert not list(raw.iterdir())


def test_an_address_that_is_none_and_the_next_place_is_asked(tmp_path, raw):
    put(tmp_path / "right")
    urls = ("http://[x", "http://127.0.0.1:99999/a", (tmp_path / "right").as_uri())
    assert fetch_dataset("set", entry(*urls), None, raw) == came_from(urls[-1])
    message = message_of("other", entry(*urls[:2]), None, raw.parent / "other")
    assert "(http://...: not a valid address (ValueError); http://...: not a valid address (InvalidURL)); " in message


def test_a_folder_in_the_place_of_the_file(tmp_path, raw):
    (tmp_path / "mirror" / "set" / NAME).mkdir(parents=True)
    put(tmp_path / "right")
    found = fetch_dataset("set", entry((tmp_path / "right").as_uri()), str(tmp_path / "mirror"), raw)
    assert found == came_from((tmp_path / "right").as_uri())
    only_the_file(raw)


def test_nothing_works(tmp_path, raw, server):
    put(tmp_path / "web" / "wrong", WRONG)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port  # nobody listens there once it is closed
    urls = (f"{server.url}/not-there", f"{server.url}/wrong", f"http://127.0.0.1:{port}/x", "file:///not-there/a")
    assert message_of("set", entry(*urls), str(tmp_path / "mirror"), raw) == (
        f"a.gz of the dataset set could be had from none of 5 places ({tmp_path}/mirror/set/a.gz: no such file; "
        f"{server.url}/not-there: HTTP status 404; "
        f"{server.url}/wrong: holds a file with SHA-256 {hashlib.sha256(WRONG).hexdigest()}, "
        f"and {SHA256} is expected; http://127.0.0.1:{port}/x: no connection (ConnectionError); "
        "file:///not-there/a: no such file); connect this machine, "
        "set `mirror` in the config or TRAINMARK_MIRROR to a folder or address that holds "
        f"set/a.gz, or put the file at {raw}/a.gz"
    )
    assert not list(raw.iterdir()), "no .part is left"


def test_no_place_at_all(raw):
    assert message_of("set", entry(), None, raw) == (
        "a.gz of the dataset set has no address in the catalogue and no mirror is set; set `mirror` in the config or "
        f"TRAINMARK_MIRROR to a folder or address that holds set/a.gz, or put the file at {raw}/a.gz"
    )


def test_the_second_file_fails_and_the_first_is_kept(tmp_path, raw):
    put(tmp_path / "mirror" / "set" / NAME)
    files = [*entry()["files"], {"name": "b.gz", "sha256": SHA256, "urls": []}]
    assert "b.gz of the dataset set" in message_of("set", {"files": files}, str(tmp_path / "mirror"), raw)
    only_the_file(raw)


# --- secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["right", "wrong", "missing", "broken-off/a"])
def test_neither_credentials_nor_query_are_told(tmp_path, raw, server, path):
    put(tmp_path / "web" / "right")
    put(tmp_path / "web" / "wrong", WRONG)
    address = f"http://user:pass-word@127.0.0.1:{server.server_port}/{path}?sig=to-ken"
    try:
        told = str(fetch_dataset("set", entry(address), None, raw))
        assert path == "right"
    except DataError as error:
        told = str(error)
        assert path != "right"
    assert f"{server.url}/{path}" in told
    for secret in ("user", "pass-word", "sig", "to-ken", "?", "@"):
        assert secret not in told
    assert server.asked == [f"/{path}?sig=to-ken"], "the server itself is given the query"
    assert "Authorization" in server.headers[0]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(
    "address",
    [
        "http://user:pass-word@127.0.0.1:1/a?sig=to-ken",
        "http://127.0.0.1:99999/a?sig=to-ken",
        "http://127.0.0.1:port/a?sig=to-ken",
        "http://user:pass-word/2@127.0.0.1/a?sig=to-ken",
        "http://[user:pass-word@x/a?sig=to-ken",
        "http://[x",
        "http:///a?sig=to-ken",
        "HTTP://user:pass-word@127.0.0.1:1/a?sig=to-ken",
        "http:/user:pass-word@127.0.0.1/a?sig=to-ken",
    ],
)
def test_nor_where_nobody_answers(raw, server, address, mirrored):
    message = message_of("set", entry(*[address] * (not mirrored)), address if mirrored else None, raw)
    for secret in ("user", "pass-word", "sig=", "to-ken"):
        assert secret not in message


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://example.org/a/b.gz", "https://example.org/a/b.gz"),
        ("https://user:pw@example.org:8443/a?x=1#y", "https://example.org:8443/a"),
        ("http://token@example.org/a", "http://example.org/a"),
        ("http://u:p@[::1]:80/a", "http://[::1]:80/a"),
        ("http://example.org:99999/a?x=1", "http://..."),
        ("https://[x/a?x=1", "https://..."),
        ("/data/mirror/a.gz", "/data/mirror/a.gz"),
        ("file:///data/a.gz", "file:///data/a.gz"),
    ],
)
def test_without_credentials(address, shown):
    assert without_credentials(address) == shown


# --- a file that is there already ---------------------------------------------------------------------------------


def test_a_right_file_is_kept_and_nobody_is_asked(raw, server):
    target = put(raw / NAME)
    before = target.stat()
    assert fetch_dataset("set", entry(f"{server.url}/a"), f"{server.url}/mirror", raw) == came_from("already there")
    after = target.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert server.asked == []


@pytest.mark.parametrize("present", [WRONG, b"", CONTENT[:-1]], ids=["other", "empty", "cut off"])
def test_a_wrong_file_is_replaced(tmp_path, raw, present):
    put(raw / NAME, present)
    put(tmp_path / "right")
    fetch_dataset("set", entry((tmp_path / "right").as_uri()), None, raw)
    only_the_file(raw)


def test_a_wrong_file_never_gets_the_right_name(tmp_path, raw, server):
    put(tmp_path / "web" / "wrong", WRONG)
    message_of("set", entry(f"{server.url}/wrong"), None, raw)
    assert not (raw / NAME).exists()


# --- verify -------------------------------------------------------------------------------------------------------


def test_verify_what_is_right(raw):
    put(raw / NAME)
    assert verify(raw, entry()) is None
    assert verify(raw / "anywhere", {"embedded_in": "scikit-learn"}) is None


@pytest.mark.parametrize(("content", "state"), [(None, "is missing"), (WRONG, "is damaged"), (b"", "is damaged")])
def test_verify_what_is_not(raw, content, state):
    if content is not None:
        put(raw / NAME, content)
    with pytest.raises(DataError) as caught:
        verify(raw, entry())
    assert str(caught.value) == f"{raw / NAME} {state}; run snakemake --forcerun download_dataset to fetch it again"


def test_verify_looks_at_every_file(raw):
    put(raw / NAME)
    files = [*entry()["files"], {"name": "b.gz", "sha256": SHA256, "urls": []}]
    with pytest.raises(DataError, match=r"b\.gz is missing"):
        verify(raw, {"files": files})
