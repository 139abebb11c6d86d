"""Fetching: the right file from the first place that has it, over lines that break in every way; or one sentence."""

import hashlib
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import broken_server
import pytest
from broken_server import (
    Server,
    at_most,
    chunked,
    closes_after,
    gives,
    hangs,
    hangs_after,
    redirect,
    resets_after,
    running,
    status,
    whole,
    without_length,
    without_ranges,
)  # fmt: skip
from messages import message_of

import trainmark
from trainmark.config.load import REPOSITORY
from trainmark.datasets.fetching import download
from trainmark.datasets.fetching.addresses import without_credentials
from trainmark.datasets.fetching.download import fetch_dataset, verify
from trainmark.errors import DataError
from trainmark.files.disk import StorageError

CONTENT = random.Random(1).randbytes(1_500_000)  # more than one chunk
OTHER = random.Random(2).randbytes(1_500_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "a.gz"

quick = pytest.fixture(autouse=True)(broken_server.without_waits)


@pytest.fixture
def server():
    with running(Server(CONTENT)) as running_server:
        yield running_server


@pytest.fixture
def target(tmp_path) -> Path:
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw" / NAME


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def entry(*urls: str, **known: int) -> dict:
    return {"files": [{"name": NAME, "sha256": SHA256, "urls": list(urls), **known}]}


def came_from(source: str) -> list[dict]:
    return [{"file": NAME, "sha256": SHA256, "from": source}]


def fetch(address: str, target: Path, **known: int) -> None:
    """Fetch; nothing but the right file is there then."""
    assert fetch_dataset("set", entry(address, **known), None, target.parent) == came_from(without_credentials(address))
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [NAME]


def trouble_with(address: str, target: Path, **known: int) -> str:
    """What is said of an address that does not give the file, which is not there then."""
    message = message_of(fetch_dataset, "set", entry(address, **known), None, target.parent)
    assert not target.exists()
    assert message.startswith(f"set lacks {target} with sha256 {SHA256} ({without_credentials(address)}: ")
    assert message.endswith("TRAINMARK_MIRROR to a folder or address that holds it in set/")
    return message.partition(f"{without_credentials(address)}: ")[2].partition("); ")[0]


def part_of(target: Path) -> Path:
    return target.with_name(f"{NAME}.part")


# --- a line that breaks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "ranges"),
    [
        ([whole], 0),
        ([closes_after(0), whole], 0),
        ([closes_after(700_000), whole], 1),
        ([resets_after(700_000), whole], 1),
        ([closes_after(100_000), status(503), closes_after(0), whole], 3),
        ([closes_after(100_000)] * 20, 15),
        ([status(408), status(429), status(502), status(504), whole], 0),
        ([status(429, Retry_After=0), status(503, Retry_After=formatdate(usegmt=True)), whole], 0),
        ([without_length], 0),
        ([chunked(CONTENT)], 0),
        ([chunked(CONTENT[:700_000], end=False), without_ranges], 1),
        ([at_most(600_000)], 2),
        ([redirect("/right")], 0),
    ],
)
def test_the_file_comes_over_a_line_that_breaks(server, target, answers, ranges):
    fetch(server.address(*answers), target, bytes=len(CONTENT))
    assert sum(asked is not None for asked in server.ranges) >= ranges
    assert server.sent_bytes < 1.5 * len(CONTENT) or without_ranges in answers


@pytest.mark.parametrize("answer", [hangs, hangs_after(700_000)])
def test_a_server_that_stalls_is_asked_again(server, target, monkeypatch, answer):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.3)
    fetch(server.address(answer, whole), target)


@pytest.mark.parametrize(
    ("answer", "words", "requests"),
    [
        (status(404), "HTTP status 404", 1),
        (status(403), "HTTP status 403", 1),
        (status(503), "HTTP status 503", 5),
        (closes_after(0), "broke off 5 times in a row, after 0 bytes", 5),
        (gives(OTHER), "holds another file", 1),
        (gives(b"<html>log in first</html>"), "holds another file", 1),
        (redirect("http://127.0.0.1:99999/"), "cannot be read (ValueError)", 1),
        (redirect("ftp://127.0.0.1/"), "cannot be read (InvalidSchema)", 1),
        (redirect("/a"), "cannot be read (TooManyRedirects)", 31),
    ],
)
def test_a_place_without_the_file_is_given_up(server, target, answer, words, requests):
    assert trouble_with(server.address(answer), target) == words
    assert len(server.paths) == requests
    assert not part_of(target).exists() or not part_of(target).stat().st_size


def test_no_more_is_written_than_is_expected(server, target):
    """A stream without end."""
    address = server.address(chunked(OTHER, pieces=1000))
    assert trouble_with(address, target, bytes=len(CONTENT)) == "holds another file"
    assert server.sent_bytes < 20 * len(CONTENT) and not list(target.parent.iterdir())


@pytest.mark.parametrize(
    ("left", "answers", "ranges"),
    [
        (CONTENT[:1000], [whole], ["bytes=1000-"]),
        (CONTENT[:1000], [without_ranges], ["bytes=1000-"]),
        (CONTENT[:1000], [redirect("/right")], ["bytes=1000-"] * 2),
        (CONTENT[:1000], [status(416), whole], ["bytes=1000-", None]),
        (CONTENT[:9], [gives(CONTENT[8:], 206, Content_Range="bytes 8-99/*"), whole], ["bytes=9-", None]),
        (b"", [whole], [None]),
        (CONTENT, [whole], []),  # only the new name was missing
        (CONTENT + b"x", [whole], ["bytes=1500001-", None]),
        (OTHER, [whole], ["bytes=1500000-", None]),
        (OTHER[:1000], [whole], ["bytes=1000-", None]),  # two files in one, which its checksum shows
        (OTHER[:1000], [closes_after(900_000), whole], ["bytes=1000-", "bytes=", None]),
    ],
)
def test_a_download_goes_on_from_what_is_there_where_that_is_right(server, target, left, answers, ranges):
    put(part_of(target), left)
    fetch(server.address(*answers), target)
    assert len(server.ranges) == len(ranges)
    for asked, expected in zip(server.ranges, ranges, strict=True):
        assert (asked is None) is (expected is None) and (asked or "").startswith(expected or "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(500), "HTTP status 500"),
        (gives(CONTENT[:-1]), "announces 1499999 bytes; expected 1500000"),
    ],
)
def test_a_place_that_does_not_have_the_file_costs_nothing_of_it(server, target, answer, words):
    put(part_of(target), CONTENT[:1000])
    assert trouble_with(server.address(answer), target, bytes=len(CONTENT)) == words
    assert part_of(target).read_bytes() == CONTENT[:1000]


TRANSFER = """
import json, sys
from pathlib import Path
from trainmark.datasets.fetching.download import fetch_dataset
fetch_dataset("set", json.loads(sys.argv[1]), None, Path(sys.argv[2]))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(trainmark.__file__).parents[1])}


def test_a_process_that_is_killed_several_times_in_a_row(server, target):
    def slow_up_to_the_stop(handler: broken_server.Handler) -> None:
        """So that no process gets to the end before it is killed, however late."""
        rest = handler.head_of_range()
        rest = rest[: max(0, server.stop_at - (len(CONTENT) - len(rest)))]
        for start in range(0, len(rest), 8192):
            handler.send(rest[start : start + 8192])
            time.sleep(0.0005)
        if server.stop_at < len(CONTENT):
            server.stop.wait(30)

    said = json.dumps(entry(server.address(slow_up_to_the_stop)))
    command = [sys.executable, "-c", TRANSFER, said, target.parent]
    for stop in (1, 400_000, 1_400_000):
        server.stop_at = stop
        with subprocess.Popen(command, env=ENVIRONMENT) as child:
            while not part_of(target).exists() or part_of(target).stat().st_size < stop * 0.9 - 20_000:
                assert child.poll() is None
                time.sleep(0.001)
            child.kill()
        assert child.returncode == -signal.SIGKILL and not target.exists()
    server.stop_at = len(CONTENT)
    subprocess.run(command, env=ENVIRONMENT, check=True)
    assert target.read_bytes() == CONTENT and [path.name for path in target.parent.iterdir()] == [NAME]
    assert server.sent_bytes < 1.3 * len(CONTENT), "each went on where the last one was killed"


@pytest.mark.parametrize("known", [{}, {"bytes": len(CONTENT)}], ids=["from the server", "from the catalogue"])
def test_a_disk_that_is_too_small_for_a_known_size(server, target, monkeypatch, known):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    urls = [server.address(without_length if known else whole), f"{server.url}/right"]
    with pytest.raises(StorageError, match=rf"^{NAME} needs 1.4 MiB more and a reserve of "):
        fetch_dataset("set", entry(*urls, **known), None, target.parent)
    assert not target.exists() and server.paths == ["/a"], "no other address has a larger disk"


# --- certificates and proxies ---------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by nobody but itself."""
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    if not shutil.which("openssl"):
        pytest.skip("the test's certificate is made by openssl, which is not here")
    subprocess.run([*command, *names, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


@pytest.fixture
def secure(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = Server(CONTENT)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.url = server.url.replace("http:", "https:")
    with running(server):
        yield server


def test_certificates_are_verified_and_https_is_not_left(secure, server, target, certificate, monkeypatch):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    words = trouble_with(f"{secure.url}/right", target)
    assert words.startswith("its certificate is refused (") and "self" in words
    assert secure.paths == [], "not even the address is told to it"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    fetch(server.address(redirect(f"{secure.url}/right")), target)
    target.unlink()
    words = trouble_with(secure.address(redirect(f"{server.url}/right")), target)
    assert words == "redirects from https to an address without it" and server.paths == ["/a"]


def test_a_proxy_is_asked_in_the_place_of_the_server(server, target, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    server.answers["http://data.invalid/a.gz"] = [closes_after(700_000), whole]
    fetch("http://data.invalid/a.gz", target)
    assert server.paths == ["http://data.invalid/a.gz"] * 2
    target.unlink()
    with Server(CONTENT) as closed:
        monkeypatch.setenv("http_proxy", closed.url.replace("//", "//user:pass-word@"))
    assert trouble_with("http://data.invalid/a.gz", target).startswith("cannot be read (")


# --- where files come from ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mirror", ["{0}/my mirror", "{0}/my mirror/", "~/my mirror", "file://{0}/my%20mirror"])
@pytest.mark.parametrize("case", ["linked", "on another disk", "small"])
def test_a_mirror_that_is_a_folder(tmp_path, target, monkeypatch, mirror, case):
    """A link to a file is no danger to the mirror: what is there is not written to."""
    if case != "small":
        monkeypatch.setattr(download, "LEAST_LINKED_BYTES", 1)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = put(tmp_path / "disk" / NAME)
    (tmp_path / "my mirror" / "set").mkdir(parents=True)
    (tmp_path / "my mirror" / "set" / NAME).symlink_to(source)
    if case == "on another disk":
        monkeypatch.setattr(os, "link", lambda *_: os.stat(tmp_path / "no link"))
    mirror = mirror.format(tmp_path)
    place = f"{mirror.rstrip('/').replace('~', str(tmp_path))}/set/{NAME}"
    put(target, OTHER)
    assert fetch_dataset("set", entry("file:///not-there"), mirror, target.parent) == came_from(place)
    assert target.read_bytes() == source.read_bytes() == CONTENT
    assert target.samefile(source) is (case == "linked") and not target.is_symlink()
    assert [path.name for path in target.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("query", ["", "?sig=to-ken&x=/y"])
def test_a_mirror_that_is_a_web_address(target, server, query):
    """An address of Azure's storage carries its key as a query."""
    server.answers[f"/data/set/{NAME}"] = [whole]
    found = fetch_dataset("set", entry(f"{server.url}/public"), f"{server.url}/data/{query}", target.parent)
    assert found == came_from(f"{server.url}/data/set/{NAME}")
    assert server.paths == [f"/data/set/{NAME}"], "the public address is not asked"


def test_the_next_address_goes_on_where_the_last_one_ended(server, target, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    bad = [str(tmp_path), str(tmp_path / "pipe"), put(tmp_path / "other", OTHER).as_uri()]
    urls = [*bad, server.address(closes_after(600_000), status(404)), f"{server.url}/right", "http://not.asked"]
    found = fetch_dataset("set", entry(*urls, bytes=len(CONTENT)), None, target.parent)
    assert found == came_from(urls[-2]) and target.read_bytes() == CONTENT
    assert server.ranges[0] is None and server.ranges[1] and server.ranges[2] == server.ranges[1]
    assert f"set: fetching a.gz (1.4 MiB) from {server.url}/right\n" in capsys.readouterr().err
    fetch_dataset("set", entry(*urls), None, target.parent)
    assert capsys.readouterr().err == "", "nothing is fetched twice, and a quick check is silent"


def test_a_file_whose_publisher_gives_md5_only(tmp_path, target):
    source = put(tmp_path / "a").as_uri()
    md5 = hashlib.md5(CONTENT).hexdigest()
    files = [{"name": NAME, "md5": md5, "urls": [source]}]
    for place in (source, "already there"):
        found = fetch_dataset("set", {"files": files}, None, target.parent)
        assert found == [{"file": NAME, "md5": md5, "from": place}]
    assert verify(target.parent, {"files": files}) is None


@pytest.mark.parametrize(
    ("without_files", "source"),
    [
        ({"embedded_in": "scikit-learn"}, "scikit-learn"),
        ({"folder": "/my/photos", **entry("file:///not-there")}, "/my/photos"),
        ({"of": "imagenet"}, "imagenet"),
        ({"format": "synthetic", "files": []}, "generated"),
    ],
)
def test_a_dataset_of_which_nothing_is_fetched(tmp_path, without_files, source):
    assert fetch_dataset("set", without_files, "/not/asked", tmp_path / "raw") == [{"file": None, "from": source}]
    assert not list((tmp_path / "raw").iterdir()) and verify(tmp_path / "raw", without_files) is None


def test_offline_takes_what_needs_no_connection_and_names_all_that_is_missing(tmp_path, target, server):
    put(target.with_name("one"), b"1")
    put(target.with_name("two"), b"wrong")
    put(tmp_path / "mirror" / "set" / "two", b"2")
    contents = {"one": b"1", "two": b"2", "three": b"3", "four": b"4"}
    files = [
        {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "urls": [f"{server.url}/a"]}
        for name, content in contents.items()
    ]
    mirror = str(tmp_path / "mirror")
    found = fetch_dataset("set", {"files": files[:2]}, mirror, target.parent, offline=True)
    assert [source["from"] for source in found] == ["already there", f"{mirror}/set/two"]
    message = message_of(fetch_dataset, "set", {"files": files}, mirror, target.parent, offline=True)
    for file in files[2:]:
        assert f"{target.parent}/{file['name']} with sha256 {file['sha256']} (" in message
    assert f"{server.url}/a: not asked); `offline: true` is set: put what is missing there, " in message
    assert server.paths == []


@pytest.mark.parametrize(("value", "asked"), [("true", False), ("0", True), ("", True)])
def test_offline_in_the_environment(tmp_path, server, value, asked):
    plan = {"records": {}, "jobs": {}, "datasets": {"set": {"entry": entry(f"{server.url}/right")}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    options = {"plan": tmp_path / "plan.json", "dataset": "set"}
    options |= {"out": tmp_path / "datasets" / "set" / "key" / "sources.json", "log": tmp_path / "log"}
    arguments = [str(part) for name, option in options.items() for part in (f"--{name}", option)]
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "download.py"), *arguments]
    done = subprocess.run(command, env=os.environ | {"TRAINMARK_OFFLINE": value}, capture_output=True, text=True)
    assert (done.returncode == 0) is asked, done.stderr
    assert bool(server.paths) is asked
    assert [file.name for file in tmp_path.glob("datasets/set/raw/*")] == ([NAME] if asked else []), (
        "which all keys share"
    )


def test_verify_looks_at_every_file(target):
    files = {"files": [*entry()["files"], {**entry()["files"][0], "name": "b.gz"}]}
    put(target)
    other = put(target.with_name("b.gz"))
    assert verify(target.parent, files) is None
    for content, state in ((b"wrong", "is damaged"), (None, "is missing")):
        other.unlink() if content is None else put(other, content)
        message = message_of(verify, target.parent, files)
        assert message.startswith(f"{other} {state}; delete {other.parents[1]}/*/sources.json, and ")


# --- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:pw@example.org:8443/a?x=1#y", "https://example.org:8443/a"),
        ("http://user:p/w@example.org/a?x=1", "http://example.org/a"),
        ("http://example.org/a/b.gz", "http://example.org/a/b.gz"),
        ("user:pw@example.org/a?x=1", "example.org/a"),
        ("http:/user:pw@example.org/a", "http:/example.org/a"),
        ("/data/me@home/a.gz", "/data/me@home/a.gz"),
        ("file:///data/a?.gz", "file:///data/a?.gz"),
    ],
)
def test_addresses_are_shown_without_credentials(address, shown):
    assert without_credentials(address) == shown


@pytest.mark.parametrize(
    "place", ["{}/right", "{}/wrong", "http://127.0.0.1:99999", "http://[x", "http://p/w@127.0.0.1"]
)
def test_neither_credentials_nor_query_are_told(target, server, capfd, place):
    server.answers["/wrong"] = [gives(b"wrong")]
    address = f"{place.format(server.url).replace('//', '//user:pass-word@')}?sig=to-ken"
    try:
        told = str(fetch_dataset("set", entry(address), None, target.parent))
    except DataError as error:
        told = str(error)
    told += "".join(capfd.readouterr())
    for secret in ("user", "pass-word", "sig", "to-ken"):
        assert secret not in told
