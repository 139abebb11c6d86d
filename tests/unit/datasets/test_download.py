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


def test_a_file_whose_publisher_gives_md5_only(tmp_path, raw):
    put(tmp_path / "a")
    md5 = hashlib.md5(CONTENT).hexdigest()
    files = [{"name": NAME, "md5": md5, "urls": [(tmp_path / "a").as_uri()]}]
    for source in ((tmp_path / "a").as_uri(), "already there"):
        assert fetch_dataset("set", {"files": files}, None, raw) == [{"file": NAME, "md5": md5, "from": source}]
    assert verify(raw, {"files": files}) is None
    put(raw / NAME, WRONG)
    with pytest.raises(DataError, match="is damaged"):
        verify(raw, {"files": files})


def test_a_size_in_the_catalogue_is_held_against_the_place(tmp_path, raw):
    put(tmp_path / "a", CONTENT[:-1])
    files = [{**entry((tmp_path / "a").as_uri())["files"][0], "bytes": len(CONTENT)}]
    message = message_of("set", {"files": files}, None, raw)
    assert f"/a: holds {len(CONTENT) - 1} bytes; expected {len(CONTENT)}); " in message


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize(
    ("without_files", "source"),
    [
        ({"embedded_in": "scikit-learn"}, "scikit-learn"),
        ({"folder": "/my/photos", **entry("file:///not-there")}, "/my/photos"),
        ({"of": "imagenet"}, "imagenet"),
        ({"format": "synthetic", "files": []}, "generated"),
    ],
)
def test_a_dataset_of_which_nothing_is_fetched(raw, without_files, source, offline):
    found = fetch_dataset("set", without_files, "/not/asked", raw, offline=offline)
    assert found == [{"file": None, "from": source}]
    assert raw.is_dir() and not list(raw.iterdir())
    assert verify(raw, without_files) is None


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
    assert message_of("set", entry(f"{server.url}/broken-off/a"), None, raw) == (
        f"a.gz of the dataset set could not be downloaded from its only source ({server.url}/broken-off/a: the "
        "connection broke off (ProtocolError)); connect this machine, set `mirror` in the config or TRAINMARK_MIRROR "
        f"to a folder or address that holds set/a.gz, or put the file at {raw}/a.gz; the bytes so far are kept in "
        f"{raw}/a.gz.part, and the next attempt continues from there"
    )
    assert {path.name: path.read_bytes() for path in raw.iterdir()} == {"a.gz.part": CONTENT[:1000]}


def test_an_address_that_is_none_and_the_next_place_is_asked(tmp_path, raw):
    put(tmp_path / "right")
    urls = ("http://[x", "http://127.0.0.1:99999/a", (tmp_path / "right").as_uri())
    assert fetch_dataset("set", entry(*urls), None, raw) == came_from(urls[-1])
    message = message_of("other", entry(*urls[:2]), None, raw.parent / "other")
    assert "(http://...: not a valid address (InvalidURL); http://...: not a valid address (InvalidURL)); " in message


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
        f"a.gz of the dataset set could not be downloaded from any of 5 sources ({tmp_path}/mirror/set/a.gz: "
        f"no such file; {server.url}/not-there: HTTP status 404; "
        f"{server.url}/wrong: holds a file with SHA-256 {hashlib.sha256(WRONG).hexdigest()}; "
        f"expected {SHA256}; http://127.0.0.1:{port}/x: no connection (ConnectionError); "
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


# --- offline ------------------------------------------------------------------------------------------------------


def test_offline_takes_what_needs_no_connection(tmp_path, raw, server):
    put(raw / "one", b"1")
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
    put(raw / "damaged", WRONG)
    put(tmp_path / "elsewhere", WRONG)
    put(raw / "there")
    files = [
        {"name": "absent", "sha256": SHA256, "urls": [f"{server.url}/right"]},
        {"name": "there", "sha256": SHA256, "urls": []},
        {"name": "damaged", "md5": "0" * 32, "urls": [f"HTTP{server.url[4:]}/right"]},
        {"name": "wrong", "sha256": SHA256, "urls": [(tmp_path / "elsewhere").as_uri()]},
    ]
    assert message_of("set", {"files": files}, None, raw, offline=True) == (
        "`offline: true` is set, and 3 of the 4 files of the dataset set cannot be fetched without a connection: "
        f"put absent with SHA-256 {SHA256} at {raw}/absent; "
        f"put damaged with MD5 {'0' * 32} at {raw}/damaged ({raw}/damaged: exists and has another checksum); "
        f"put wrong with SHA-256 {SHA256} at {raw}/wrong (file://{tmp_path}/elsewhere: holds a file with SHA-256 "
        f"{hashlib.sha256(WRONG).hexdigest()}; expected {SHA256}); "
        "or set `mirror` in the config or TRAINMARK_MIRROR to a folder that holds them in set/"
    )
    assert server.asked == []
    assert sorted(path.name for path in raw.iterdir()) == ["damaged", "there"]


def test_offline_with_a_mirror_on_the_web(raw, server):
    mirror = f"{server.url.replace('//', '//user:pass-word@')}/data?sig=to-ken"
    message = message_of("set", entry(), mirror, raw, offline=True)
    assert message.endswith(f" in set/; the mirror {server.url}/data is not used")
    put(raw / NAME)
    assert fetch_dataset("set", entry(), mirror, raw, offline=True) == came_from("already there")
    assert server.asked == []


# --- what is printed ----------------------------------------------------------------------------------------------


def test_a_download_says_what_comes_from_which_host(tmp_path, raw, server, capsys):
    put(tmp_path / "web" / "right")
    address = f"{server.url.replace('//', '//user:pass-word@')}/right?sig=to-ken"
    files = [{**entry(address)["files"][0], "bytes": len(CONTENT)}]
    fetch_dataset("set", {"files": files}, None, raw)
    fetch_dataset("set", {"files": files}, None, raw)
    host = server.url.removeprefix("http://")
    assert capsys.readouterr().err == f"set: downloading a.gz (1.4 MiB) from {host}\n", "once: then it is there"


def test_a_mirror_that_is_a_folder_says_nothing_where_it_is_quick(tmp_path, raw, capsys):
    put(tmp_path / "mirror" / "set" / NAME)
    fetch_dataset("set", entry(), str(tmp_path / "mirror"), raw)
    assert capsys.readouterr().err == ""


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
    assert set(server.asked) == {f"/{path}?sig=to-ken"}, "the server itself is given the query"
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


def test_an_address_of_another_kind_is_none(raw):
    assert (
        "(ftp://example.org/set/a.gz: is an address with an unknown scheme; allowed: a folder, or a file://, http:// "
        "or https:// address);"
    ) in message_of("set", entry(), "ftp://user:pw@example.org", raw)


@pytest.mark.parametrize(("value", "asked"), [("1", False), ("true", False), ("0", True), ("", True)])
def test_offline_in_the_environment(tmp_path, server, value, asked):
    put(tmp_path / "web" / NAME)
    options = {"dataset": "set", "entry": json.dumps(entry(f"{server.url}/{NAME}")), "raw-folder": tmp_path / "raw"}
    options |= {"out": tmp_path / "sources.json", "log": tmp_path / "log"}
    arguments = [str(part) for name, option in options.items() for part in (f"--{name}", option)]
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "download.py"), *arguments]
    done = subprocess.run(command, env=os.environ | {"TRAINMARK_OFFLINE": value}, capture_output=True, text=True)
    assert (done.returncode == 0) is asked, done.stderr
    assert bool(server.asked) is asked


# --- what was written down ---------------------------------------------------------------------------------------


def test_sources_are_read_again(tmp_path):
    (tmp_path / "sources.json").write_text(json.dumps(came_from("already there")))
    assert read_sources(tmp_path / "sources.json") == came_from("already there")


@pytest.mark.parametrize("content", [b"", b"[{", b"\xff"])
def test_damaged_sources_are_refused(tmp_path, content):
    path = tmp_path / "sources.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_sources(path)
    assert str(caught.value).startswith(f"{path} does not say where the files came from (")
    assert str(caught.value).endswith("); delete it and run snakemake again")


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


def test_a_right_file_needs_no_half_of_it_any_longer(raw):
    put(raw / NAME)
    put(raw / f"{NAME}.part", CONTENT[:1000])
    fetch_dataset("set", entry(), None, raw)
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
    assert (
        str(caught.value) == f"{raw / NAME} {state}; run snakemake again with --forcerun download_dataset to fetch it"
    )


def test_verify_looks_at_every_file(raw):
    put(raw / NAME)
    files = [*entry()["files"], {"name": "b.gz", "sha256": SHA256, "urls": []}]
    with pytest.raises(DataError, match=r"b\.gz is missing"):
        verify(raw, {"files": files})
