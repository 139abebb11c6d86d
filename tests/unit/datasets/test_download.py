"""Fetching: the right file from the first place that has it, and one sentence where no place has.

Every address is a folder of the test's own or a server on 127.0.0.1. How a line may break: test_transfer.py.
"""

import functools
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import broken_server
import messages
import pytest

from trainmark.config.load import REPOSITORY
from trainmark.datasets.fetching.download import fetch_dataset, read_sources, verify
from trainmark.errors import DataError

CONTENT = b"the right file\n" * 100_000  # more than one chunk
WRONG = b"<html>log in first</html>\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "a.gz"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, with no ranges; writes down what was asked for; breaks off where the path says so."""

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
        super().do_GET()


quick = pytest.fixture(autouse=True)(broken_server.without_waits)


@pytest.fixture
def server(tmp_path):
    """A web server over the folder `web`, with `url`, `asked` and `headers`."""
    (tmp_path / "web").mkdir()
    handler = functools.partial(Handler, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.asked, running.headers = [], []
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
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


def message_of(*arguments, **options) -> str:
    return messages.message_of(fetch_dataset, *arguments, **options)


@pytest.mark.parametrize("mirror", ["{0}/my mirror", "{0}/my mirror/", "~/my mirror", "file://{0}/my%20mirror"])
def test_a_mirror_that_is_a_folder(tmp_path, raw, monkeypatch, mirror):
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "my mirror" / "set" / NAME)
    mirror = mirror.format(tmp_path)
    place = f"{mirror.rstrip('/').replace('~', str(tmp_path))}/set/{NAME}"
    assert fetch_dataset("set", entry("file:///not-there"), mirror, raw) == came_from(place)
    only_the_file(raw)


@pytest.mark.parametrize("query", ["", "?sig=to-ken&x=/y"])
def test_a_mirror_that_is_a_web_address(tmp_path, raw, server, query):
    """An address of Azure's storage carries its key as a query."""
    put(tmp_path / "web" / "data" / "set" / NAME)
    found = fetch_dataset("set", entry(f"{server.url}/public"), f"{server.url}/data/{query}", raw)
    assert found == came_from(f"{server.url}/data/set/{NAME}")
    assert server.asked == [f"/data/set/{NAME}{query}"], "the public address is not asked"
    only_the_file(raw)


def test_the_public_addresses_in_their_order_where_there_is_no_mirror(tmp_path, raw, server):
    put(tmp_path / "web" / "second")
    put(tmp_path / "web" / "third")
    found = fetch_dataset("set", entry(*(f"{server.url}/{name}" for name in ("first", "second", "third"))), None, raw)
    assert found == came_from(f"{server.url}/second")
    assert server.asked == ["/first", "/second"]
    assert server.headers[0]["Accept-Encoding"] == "identity", "the file itself, and no compressed form of it"
    only_the_file(raw)


def test_a_file_whose_publisher_gives_md5_only(tmp_path, raw):
    put(tmp_path / "a")
    md5 = hashlib.md5(CONTENT).hexdigest()
    files = [{"name": NAME, "md5": md5, "urls": [(tmp_path / "a").as_uri()]}]
    for source in ((tmp_path / "a").as_uri(), "already there"):
        assert fetch_dataset("set", {"files": files}, None, raw) == [{"file": NAME, "md5": md5, "from": source}]
    assert verify(raw, {"files": files}) is None


@pytest.mark.parametrize(
    ("without_files", "source"),
    [
        ({"embedded_in": "scikit-learn"}, "scikit-learn"),
        ({"folder": "/my/photos", **entry("file:///not-there")}, "/my/photos"),
        ({"of": "imagenet"}, "imagenet"),
        ({"format": "synthetic", "files": []}, "generated"),
    ],
)
def test_a_dataset_of_which_nothing_is_fetched(raw, without_files, source):
    for offline in (False, True):
        found = fetch_dataset("set", without_files, "/not/asked", raw, offline=offline)
        assert found == [{"file": None, "from": source}]
    assert raw.is_dir() and not list(raw.iterdir())
    assert verify(raw, without_files) is None


def test_a_connection_that_breaks_off_everywhere(raw, server):
    message = message_of("set", entry(f"{server.url}/broken-off/a"), None, raw)
    tried = f"from its only source ({server.url}/broken-off/a: the connection broke off (ProtocolError)); "
    assert tried in message and f"; the bytes so far are kept in {raw}/a.gz.part, " in message
    assert {path.name: path.read_bytes() for path in raw.iterdir()} == {"a.gz.part": CONTENT[:1000]}


def test_nothing_works(tmp_path, raw, server):
    put(tmp_path / "web" / "wrong", WRONG)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port  # nobody listens there once it is closed
    urls = [f"{server.url}/not-there", f"{server.url}/wrong", f"http://127.0.0.1:{port}/x"]
    urls += ["http://[x", "ftp://user:pw@x.org/a", "file:///not-there/a"]
    assert message_of("set", entry(*urls), str(tmp_path / "mirror"), raw) == (
        f"a.gz of set could not be downloaded from any of 7 sources ({tmp_path}/mirror/set/a.gz: "
        f"no such file; {server.url}/not-there: HTTP status 404; "
        f"{server.url}/wrong: holds a file with SHA-256 {hashlib.sha256(WRONG).hexdigest()}; expected {SHA256}; "
        f"http://127.0.0.1:{port}/x: no connection (ConnectionError); http://...: not a valid address (InvalidURL); "
        "ftp://x.org/a: is an address with an unknown scheme; allowed: a folder, or a file://, http:// or https:// "
        "address; file:///not-there/a: no such file); connect this machine, set `mirror` in the config or "
        f"TRAINMARK_MIRROR to a folder or address that holds set/a.gz, or put the file at {raw}/a.gz"
    )
    assert not list(raw.iterdir()), "no .part is left"


def test_a_second_file_without_any_place_and_the_first_is_kept(tmp_path, raw):
    put(tmp_path / "mirror" / "set" / NAME)
    first = entry((tmp_path / "mirror" / "set" / NAME).as_uri())["files"]
    message = message_of("set", {"files": [*first, {"name": "b.gz", "sha256": SHA256, "urls": []}]}, None, raw)
    assert message.startswith("b.gz of set has no address in the catalogue and no mirror is set; ")
    assert message.endswith(f"or put the file at {raw}/b.gz")
    only_the_file(raw)


def test_offline_takes_what_needs_no_connection(tmp_path, raw, server):
    put(raw / "one", b"1")
    put(raw / "two", b"wrong")
    put(tmp_path / "mirror" / "set" / "two", b"2")
    put(tmp_path / "elsewhere", b"3")
    web, elsewhere = f"{server.url}/a", (tmp_path / "elsewhere").as_uri()
    files = [
        {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "urls": [web, elsewhere]}
        for name, content in (("one", b"1"), ("two", b"2"), ("three", b"3"))
    ]
    found = fetch_dataset("set", {"files": files}, str(tmp_path / "mirror"), raw, offline=True)
    assert [source["from"] for source in found] == ["already there", f"{tmp_path}/mirror/set/two", elsewhere]
    assert {path.name: path.read_bytes() for path in raw.iterdir()} == {"one": b"1", "two": b"2", "three": b"3"}
    assert server.asked == []


def test_offline_names_every_missing_file_at_once(tmp_path, raw, server):
    put(tmp_path / "web" / "right")
    put(raw / "damaged", CONTENT[:-1])
    put(tmp_path / "elsewhere", WRONG)
    put(raw / "there")
    files = [
        {"name": "absent", "sha256": SHA256, "urls": [f"{server.url}/right"]},
        {"name": "there", "sha256": SHA256, "urls": []},
        {"name": "damaged", "md5": "0" * 32, "urls": [f"HTTP{server.url[4:]}/right"]},
        {"name": "wrong", "sha256": SHA256, "urls": [(tmp_path / "elsewhere").as_uri()]},
    ]
    message = message_of("set", {"files": files}, None, raw, offline=True)
    assert message.startswith("`offline: true` is set, and 3 of the 4 files of set cannot be fetched ")
    for missing in (
        f": put absent with SHA-256 {SHA256} at {raw}/absent; ",
        f"; put damaged with MD5 {'0' * 32} at {raw}/damaged ({raw}/damaged: exists and has another checksum); ",
        f"; put wrong with SHA-256 {SHA256} at {raw}/wrong (file://{tmp_path}/elsewhere: holds a file with SHA-256 ",
    ):
        assert missing in message
    assert message.endswith(" to a folder that holds them in set/")
    assert server.asked == []
    assert sorted(path.name for path in raw.iterdir()) == ["damaged", "there"]


def test_offline_with_a_mirror_on_the_web(raw, server):
    mirror = f"{server.url.replace('//', '//user:pass-word@')}/data?sig=to-ken"
    message = message_of("set", entry(), mirror, raw, offline=True)
    assert message.endswith(f" in set/; the mirror {server.url}/data is not used")
    put(raw / NAME)
    assert fetch_dataset("set", entry(), mirror, raw, offline=True) == came_from("already there")
    assert server.asked == []


def test_a_download_says_what_comes_from_which_host(tmp_path, raw, server, capsys):
    put(tmp_path / "web" / "right")
    address = f"{server.url.replace('//', '//user:pass-word@')}/right?sig=to-ken"
    files = [{**entry(address)["files"][0], "bytes": len(CONTENT)}]
    fetch_dataset("set", {"files": files}, None, raw)
    fetch_dataset("set", {"files": files}, None, raw)
    put(tmp_path / "mirror" / "other" / NAME)
    fetch_dataset("other", entry(), str(tmp_path / "mirror"), raw.parent / "other")
    host = server.url.removeprefix("http://")
    told = capsys.readouterr().err
    assert told == f"set: downloading a.gz (1.4 MiB) from {host}\n", "once, and nothing of a folder that is quick"


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
    assert set(server.asked) == {f"/{path}?sig=to-ken"}, "the server itself is given the query"
    assert "Authorization" in server.headers[0]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        "http://user:pass-word@127.0.0.1:1", "http://127.0.0.1:99999", "http://user:pass-word/2@127.0.0.1",
        "http://[user:pass-word@x", "HTTP://user:pass-word@127.0.0.1:1", "http:/user:pass-word@127.0.0.1",
    ],
)  # fmt: skip
def test_nor_where_nobody_answers(raw, place, mirrored):
    address = f"{place}/a?sig=to-ken"
    message = message_of("set", entry(*[address] * (not mirrored)), address if mirrored else None, raw)
    for secret in ("user", "pass-word", "sig=", "to-ken"):
        assert secret not in message


@pytest.mark.parametrize(("value", "asked"), [("true", False), ("0", True), ("", True)])
def test_offline_in_the_environment(tmp_path, server, value, asked):
    put(tmp_path / "web" / NAME)
    options = {"dataset": "set", "entry": json.dumps(entry(f"{server.url}/{NAME}")), "raw-folder": tmp_path / "raw"}
    options |= {"out": tmp_path / "sources.json", "log": tmp_path / "log"}
    arguments = [str(part) for name, option in options.items() for part in (f"--{name}", option)]
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "download.py"), *arguments]
    done = subprocess.run(command, env=os.environ | {"TRAINMARK_OFFLINE": value}, capture_output=True, text=True)
    assert (done.returncode == 0) is asked, done.stderr
    assert bool(server.asked) is asked


def test_sources_are_read_again_if_they_are_whole(tmp_path):
    path = tmp_path / "sources.json"
    path.write_text(json.dumps(came_from("already there")))
    assert read_sources(path) == came_from("already there")
    for damaged in (b"", b"[{", b"\xff"):
        path.write_bytes(damaged)
        message = messages.message_of(read_sources, path)
        assert message.startswith(f"{path} does not say where the files came from (")


def test_a_right_file_is_kept_and_nobody_is_asked(raw, server):
    target = put(raw / NAME)
    put(raw / f"{NAME}.part", CONTENT[:1000])
    before = target.stat()
    assert fetch_dataset("set", entry(f"{server.url}/a"), f"{server.url}/mirror", raw) == came_from("already there")
    after = target.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert server.asked == []
    only_the_file(raw)


def test_verify_looks_at_every_file(raw):
    files = {"files": [*entry()["files"], {**entry()["files"][0], "name": "b.gz"}]}
    put(raw / NAME)
    put(raw / "b.gz")
    assert verify(raw, files) is None
    assert verify(raw / "anywhere", {"embedded_in": "scikit-learn"}) is None
    for content, state in ((WRONG, "is damaged"), (b"", "is damaged"), (None, "is missing")):
        (raw / "b.gz").unlink() if content is None else put(raw / "b.gz", content)
        message = messages.message_of(verify, raw, files)
        assert message.startswith(f"{raw}/b.gz {state}; run snakemake again with --forcerun download_dataset ")
