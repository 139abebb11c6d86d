"""One file over a line that breaks in every way: it is right at the end, or there is one sentence and no file."""

import errno
import hashlib
import io
import os
import random
import signal
import ssl
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

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
    page,
    redirect,
    resets_after,
    running,
    status,
    whole,
    without_length,
    without_ranges,
    without_ranges_closes_after,
)
from messages import message_of

import trainmark
from trainmark.datasets.fetching.download import fetch_dataset
from trainmark.datasets.fetching.partial_file import PartialFile
from trainmark.datasets.fetching.transfer import FETCH_ERRORS, in_words, transfer
from trainmark.files import checksums
from trainmark.files.checksums import Checksum
from trainmark.files.disk import StorageError

CONTENT = random.Random(1).randbytes(1_500_000)  # more than one chunk
OTHER = random.Random(2).randbytes(1_500_000)
NAME = "a.gz"


def sha256(content: bytes) -> Checksum:
    return Checksum("sha256", hashlib.sha256(content).hexdigest())


RIGHT = sha256(CONTENT)
WRONG = f"holds a file with {sha256(OTHER)}; expected {RIGHT.digest}"


quick = pytest.fixture(autouse=True)(broken_server.without_waits)


@pytest.fixture
def server():
    with running(Server(CONTENT)) as running_server:
        yield running_server


@pytest.fixture
def target(tmp_path) -> Path:
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw" / NAME


def fetch(address: str, target: Path, size_bytes: int | None = None) -> None:
    """Fetch; nothing but the right file is there then."""
    transfer(address, target, RIGHT, size_bytes)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [NAME]


def trouble_with(address: str, target: Path, size_bytes: int | None = None) -> str:
    """What is said of an address that does not give the file, which is not there then."""
    with pytest.raises(FETCH_ERRORS) as caught:
        transfer(address, target, RIGHT, size_bytes)
    assert not target.exists()
    assert "\n" not in in_words(caught.value)
    return in_words(caught.value)


def part_of(target: Path, content: bytes | None = None) -> Path:
    part = target.with_name(f"{NAME}.part")
    if content is not None:
        part.write_bytes(content)
    return part


def nothing_is_left(target: Path) -> bool:
    return not list(target.parent.iterdir())


@pytest.mark.parametrize(
    ("answers", "ranges"),
    [
        ([whole], [None]),
        ([closes_after(0), whole], [None, None]),
        ([closes_after(700_000), whole], [None, "bytes=700000-"]),
        ([closes_after(9), status(503), closes_after(0), whole], [None, "bytes=9-", "bytes=9-", "bytes=9-"]),
        ([status(408), status(429), status(502), status(504), whole], [None] * 5),
        ([chunked(CONTENT[:5000], end=False), whole], [None, "bytes=5000-"]),
        ([at_most(1_000_000)], [None, "bytes=1000000-"]),
        ([without_length], [None]),
        ([chunked(CONTENT)], [None]),
        ([closes_after(100_000)], [None, *(f"bytes={start}-" for start in range(100_000, len(CONTENT), 100_000))]),
    ],
)
@pytest.mark.parametrize("size_bytes", [None, len(CONTENT)])
def test_it_goes_on_where_it_broke_off(server, target, answers, ranges, size_bytes):
    fetch(server.address(*answers), target, size_bytes)
    assert server.ranges == ranges


@pytest.mark.parametrize(("size_bytes", "ranges"), [(None, [None, "bytes=1500000-"]), (len(CONTENT), [None])])
def test_a_break_behind_the_last_byte(server, target, size_bytes, ranges):
    fetch(server.address(chunked(CONTENT, end=False), whole), target, size_bytes)
    assert server.ranges == ranges


@pytest.mark.parametrize(
    ("answer", "ranges", "kind"),
    [(hangs, [None, None], "ReadTimeout"), (hangs_after(700_000), [None, "bytes=700000-"], "ReadTimeoutError")],
)
def test_a_server_that_hangs(server, target, monkeypatch, capfd, answer, ranges, kind):
    monkeypatch.setattr("trainmark.datasets.fetching.transfer.TIMEOUT_SECONDS", 0.3)
    fetch(server.address(answer, whole), target)
    assert server.ranges == ranges
    assert f"no answer in 0.3 s ({kind}); trying again in 0 s" in capfd.readouterr().err


def test_a_connection_that_is_reset_and_a_server_without_ranges_which_starts_from_zero(server, target):
    """What the kernel held at a reset is lost: the second range is anywhere before that byte."""
    fetch(server.address(resets_after(700_000), whole), target)
    assert len(server.ranges) == 2
    target.unlink()
    fetch(server.address(without_ranges_closes_after(700_000), without_ranges, path="/b"), target)
    assert server.ranges[2:] == [None, "bytes=700000-"]


@pytest.mark.parametrize(
    ("answers", "kept", "attempts"),
    [
        ([*[status(500)] * 4, closes_after(10), *[status(500)] * 4, whole], None, 10),
        ([*[status(500)] * 4, closes_after(10), *[status(500)] * 5, whole], 10, 10),
        ([without_ranges_closes_after(1000)], 1000, 6),  # it never gets further than the first time
    ],
)
def test_the_attempts_are_counted_anew_after_progress(server, target, answers, kept, attempts):
    address = server.address(*answers)
    if kept:
        trouble_with(address, target)
        assert part_of(target).read_bytes() == CONTENT[:kept], "kept for another address"
    else:
        fetch(address, target)
    assert len(server.paths) == attempts


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(500), "HTTP status 500"),
        (closes_after(0), "the connection broke off (ProtocolError)"),
        (gives(CONTENT[9:], 206), "does not send the file from byte 0 on (HTTP status 206)"),
        (status(416), "does not send the file from byte 0 on (HTTP status 416)"),
        (gives(b"", Content_Length=""), f"broke off after 0 of {len(CONTENT)} bytes"),
    ],
)
def test_five_attempts_without_a_byte_are_all(server, target, answer, words):
    assert trouble_with(server.address(answer), target, len(CONTENT)) == words
    assert len(server.paths) == 5
    assert nothing_is_left(target)


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The seconds that would have been waited."""
    found: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=found.append))
    monkeypatch.setattr("trainmark.datasets.fetching.transfer.LONGEST_WAIT_SECONDS", 60)
    return found


def test_waits_grow_up_to_the_longest_and_differ(server, target, waits, monkeypatch):
    monkeypatch.setattr("trainmark.datasets.fetching.transfer.FIRST_WAIT_SECONDS", 1)
    monkeypatch.setattr("trainmark.datasets.fetching.transfer.ATTEMPTS", 40)
    trouble_with(server.address(status(500)), target)
    assert len(waits) == 39
    assert all(0 <= wait <= min(2**attempt, 60) for attempt, wait in enumerate(waits))
    assert max(waits) > 30 and len(set(waits)) == len(waits)


@pytest.mark.parametrize(
    ("retry_after", "low", "high"),
    [
        ("7", 7, 7),
        ("100000", 60, 60),
        ("soon", 0, 0.01),
        ("Wed, 21 Oct 99999 07:28:00 GMT", 0, 0.01),
        pytest.param(formatdate(time.time() + 3600, usegmt=True), 60, 60, id="in an hour"),  # one id in all workers
    ],
)
def test_a_server_that_says_when_to_come_again(server, target, waits, retry_after, low, high):
    fetch(server.address(status(503, Retry_After=retry_after), whole), target)
    assert len(waits) == 1 and low <= waits[0] <= high


def test_what_went_wrong_and_what_comes_next_is_printed_with_the_host_alone(server, target, capfd):
    address = server.address(closes_after(700_000), status(503), whole)
    host = urlsplit(address).netloc
    fetch(f"{address.replace('//', '//user:pass-word@')}?sig=to-ken", target)
    assert capfd.readouterr().err == (
        f"{NAME} from {host}: the connection broke off (ProtocolError); trying again in 0 s, from byte 700000\n"
        f"{NAME} from {host}: HTTP status 503; trying again in 0 s, from byte 700000\n"
    )


def test_the_bar_starts_where_the_download_goes_on(server, target, monkeypatch):
    bars = []

    def progress_bar(*arguments, **options):
        bars.append((*arguments, options))
        return checksums.progress_bar(*arguments, **options)

    monkeypatch.setattr("trainmark.datasets.fetching.transfer.progress_bar", progress_bar)
    part_of(target, CONTENT[:750_000])
    fetch(f"{server.url}/right", target)
    assert bars == [(f"downloading {NAME}", len(CONTENT), {"initial": 750_000})]


@pytest.mark.parametrize(
    ("answer", "size_bytes", "words"),
    [
        (status(404), None, "HTTP status 404"),
        (gives(OTHER), None, WRONG),
        (without_length, 1000, f"holds a file with {sha256(CONTENT[:1000])}; expected {RIGHT.digest}"),
        (gives(CONTENT[:-1]), len(CONTENT), "announces 1499999 bytes; expected 1500000"),
        (gives(CONTENT, Content_Length=10**18), len(CONTENT), f"announces {10**18} bytes; expected 1500000"),
        (gives(b""), None, f"holds a file with {sha256(b'')}; expected {RIGHT.digest}"),
        (page, None, "sent a web page (text/html), not the file"),
        (gives(b"gone", Content_Type="text/html"), len(CONTENT), "sent a web page (text/html), not the file"),
        (redirect("http://127.0.0.1:99999/"), None, "not a valid address (InvalidURL)"),
        (redirect("ftp://127.0.0.1/"), None, "not a valid address (InvalidSchema)"),
    ],
)
def test_it_is_given_up_at_once(server, target, answer, size_bytes, words):
    assert trouble_with(server.address(answer), target, size_bytes) == words
    assert len(server.paths) == 1
    assert nothing_is_left(target)


def test_a_redirect_is_followed_with_its_range_and_not_without_end(server, target):
    part_of(target, CONTENT[:1000])
    fetch(server.address(redirect("/right")), target)
    assert list(zip(server.paths, server.ranges, strict=True)) == [("/a", "bytes=1000-"), ("/right", "bytes=1000-")]
    target.unlink()
    address = server.address(redirect("/c"), path="/b")
    server.address(redirect("/b"), path="/c")
    assert trouble_with(address, target) == "redirects without end (TooManyRedirects)"
    assert len(server.paths) == 2 + 31, "the 30 redirects that requests follows, and no second attempt"
    assert nothing_is_left(target)


def test_no_more_is_written_than_is_expected(server, target):
    """A stream without end; the temporary file never grows beyond the size in the catalogue."""
    address = server.address(chunked(OTHER, pieces=1000))
    assert trouble_with(address, target, len(CONTENT)) == WRONG
    assert server.sent_bytes < 20 * len(CONTENT)
    assert nothing_is_left(target)


def test_a_page_where_a_page_is_asked_for_and_a_right_file_that_is_called_one(server, target):
    fetch(server.address(gives(CONTENT, Content_Type="text/html")), target, len(CONTENT))
    address = server.address(gives(b"<html>", Content_Type="text/html"), path="/b")
    transfer(address, target.with_name("a.html"), sha256(b"<html>"))
    assert target.with_name("a.html").read_bytes() == b"<html>"


@pytest.mark.parametrize(
    ("left", "answers", "size_bytes", "ranges"),
    [
        (CONTENT[:1000], [without_ranges], None, ["bytes=1000-"]),
        (b"", [whole], None, [None]),
        (CONTENT, [whole], None, []),  # only the new name was missing
        (OTHER[:1000], [whole], None, ["bytes=1000-", None]),
        (OTHER[:1000], [closes_after(900_000), whole], None, ["bytes=1000-", "bytes=901000-", None]),
        (OTHER, [whole], None, ["bytes=1500000-", None]),
        (OTHER, [whole], len(CONTENT), [None]),
        (CONTENT + b"x", [whole], None, ["bytes=1500001-", None]),
        (CONTENT + b"x", [whole], len(CONTENT), [None]),
        (CONTENT[:1000], [status(416), whole], None, ["bytes=1000-", None]),
        (CONTENT[:1000], [gives(CONTENT[9:], 206), whole], None, ["bytes=1000-", None]),
        (CONTENT[:9], [gives(CONTENT[8:], 206, Content_Range="bytes 8-99/*"), whole], None, ["bytes=9-", None]),
        (CONTENT[:9], [gives(CONTENT[9:], 206, Content_Range="bytes 9-1499999/*")], None, ["bytes=9-"]),
    ],
)
def test_it_goes_on_from_there_where_that_is_right(server, target, left, answers, size_bytes, ranges):
    part_of(target, left)
    fetch(server.address(*answers), target, size_bytes)
    assert server.ranges == ranges


def test_wrong_on_top_of_wrong_is_fetched_from_zero_once(server, target):
    part_of(target, OTHER[:1000])
    server.content = OTHER[::-1]
    assert trouble_with(server.address(closes_after(400_000)), target).startswith("holds a file with SHA-256 ")
    assert server.ranges.count(None) == 1 and server.sent_bytes < 2 * len(OTHER)
    assert nothing_is_left(target)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (page, "sent a web page (text/html), not the file"),
        (status(500), "HTTP status 500"),
        (gives(CONTENT[:-1]), "announces 1499999 bytes; expected 1500000"),
        (gives(b"<p>416", 416, Content_Range="bytes */99", Content_Type="text/html"), "announces 99 bytes; expected"),
    ],
)
def test_a_place_that_does_not_have_the_file_costs_nothing_of_it(server, target, answer, words):
    part_of(target, CONTENT[:1000])
    assert trouble_with(server.address(answer), target, len(CONTENT)).startswith(words)
    assert part_of(target).read_bytes() == CONTENT[:1000]


def test_the_next_address_goes_on_where_the_last_one_ended(server, target):
    urls = [server.address(closes_after(600_000), status(404)), f"{server.url}/right"]
    entry = {"files": [{"name": NAME, "sha256": RIGHT.digest, "urls": urls, "bytes": len(CONTENT)}]}
    assert fetch_dataset("set", entry, None, target.parent)[0]["from"] == urls[1]
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=600000-", "bytes=600000-"]


def test_a_file_that_another_process_is_writing_or_that_cannot_be_written(server, target):
    with PartialFile(target, "sha256") as other:
        other.append(CONTENT[:10])
        words = trouble_with(f"{server.url}/right", target)
        assert words == f"{target}.part is being written by another process; wait until that process ends"
    assert server.paths == []
    fetch(f"{server.url}/right", target)
    assert server.ranges == ["bytes=10-"]
    target.unlink()
    part_of(target).mkdir()
    with pytest.raises(StorageError, match=r"a.gz.part cannot be written \(Is a directory\); check that folder"):
        transfer(f"{server.url}/right", target, RIGHT)


def test_all_of_it_is_on_the_disk_before_it_gets_its_name(server, target, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((os.fstat(file).st_size, target.exists())))
    fetch(f"{server.url}/right", target)
    assert synced == [(len(CONTENT), False)]


TRANSFER = """
import sys
from pathlib import Path
from trainmark.datasets.fetching.transfer import transfer
from trainmark.files.checksums import Checksum
transfer(sys.argv[1], Path(sys.argv[2]), Checksum("sha256", sys.argv[3]))
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(trainmark.__file__).parents[1])}


def test_a_process_that_is_killed_several_times_in_a_row(target):
    def slow_up_to_the_stop(handler: broken_server.Handler) -> None:
        """So that no process gets to the end before it is killed, however late."""
        rest = handler.head_of_range()
        rest = rest[: max(0, handler.server.stop_at - (len(CONTENT) - len(rest)))]
        for start in range(0, len(rest), 8192):
            handler.send(rest[start : start + 8192])
            time.sleep(0.0005)
        if handler.server.stop_at < len(CONTENT):
            handler.server.stop.wait(30)

    with running(Server(CONTENT)) as server:
        command = [sys.executable, "-c", TRANSFER, server.address(slow_up_to_the_stop), target, RIGHT.digest]
        for stop in (1, 400_000, 700_001, 1_400_000):
            server.stop_at = stop
            with subprocess.Popen(command, env=ENVIRONMENT) as child:
                while not part_of(target).exists() or part_of(target).stat().st_size < stop * 0.9:
                    assert child.poll() is None
                    time.sleep(0.001)
                child.kill()
            assert child.returncode == -signal.SIGKILL and not target.exists()
        server.stop_at = len(CONTENT)
        subprocess.run(command, env=ENVIRONMENT, check=True)
        assert target.read_bytes() == CONTENT
        assert [path.name for path in target.parent.iterdir()] == [NAME]
        assert server.sent_bytes < 1.3 * len(CONTENT), "each went on where the last one was killed"
        assert sum(asked is not None for asked in server.ranges) == 4


class SmallDisk(io.FileIO):
    """A file on a disk with room for one MiB of it: it takes what fits."""

    def write(self, data) -> int:
        room = (1 << 20) - self.tell()
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data[:room])


def refusal_of(urls: list[str], target: Path, **known: int) -> str:
    entry = {"files": [{"name": NAME, "sha256": RIGHT.digest, "urls": urls, **known}]}
    return message_of(fetch_dataset, "set", entry, None, target.parent)


@pytest.mark.parametrize("known", [{}, {"bytes": len(CONTENT)}], ids=["from the server", "from the catalogue"])
def test_a_disk_that_is_too_small_for_a_known_size(server, target, monkeypatch, known):
    monkeypatch.setattr("trainmark.files.disk.RESERVE_BYTES", 1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    urls = [server.address(without_length if known else whole), f"{server.url}/right"]
    needs = f"{NAME} needs 1.4 MiB more and a reserve of 1000 bytes, and the disk of {target.parent} has 1.0 MiB free; "
    assert refusal_of(urls, target, **known).startswith(needs)
    assert nothing_is_left(target)
    assert server.paths == ["/a"], "no other address has a larger disk"


def test_what_is_there_counts_and_the_reserve_stays_free(target, monkeypatch):
    monkeypatch.setattr("trainmark.files.disk.RESERVE_BYTES", 100)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with PartialFile(target, "sha256") as part:
        part.append(bytes(500))
        part.require_space(1400)
        with pytest.raises(StorageError, match=r"needs 901 bytes more .* has 1000 bytes free"):
            part.require_space(1401)


def test_a_disk_that_fills_up_on_the_way(server, target, monkeypatch):
    small = "trainmark.datasets.fetching.partial_file.open"
    monkeypatch.setattr(small, lambda path, mode, buffering: SmallDisk(path, mode), raising=False)
    urls = [server.address(chunked(CONTENT)), f"{server.url}/right"]
    full = f"the disk of {target.parent} is full (No space left on device); the 1.0 MiB of {NAME} so far are kept in "
    assert refusal_of(urls, target).startswith(f"{full}{target}.part; make room and run again")
    assert part_of(target).read_bytes() == CONTENT[: 1 << 20] and not target.exists()
    assert server.paths == ["/a"]


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "mirror").mkdir()
    path = tmp_path / "mirror" / NAME
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def two_disks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("as_uri", [False, True])
def test_a_mirror_on_the_same_disk_costs_no_copy(source, target, as_uri):
    """The mirror's file may be a link, and so is what a process left that was killed: no danger to the mirror."""
    source.with_name("link").symlink_to(source.name)
    target.with_name(f"{NAME}.link").hardlink_to(source)
    part_of(target, CONTENT[:10])
    link = source.with_name("link")
    fetch(link.as_uri() if as_uri else str(link), target, len(CONTENT))
    assert target.samefile(source) and not target.is_symlink()
    assert source.read_bytes() == CONTENT


@pytest.mark.parametrize("left", [b"", CONTENT[:1000], OTHER[:1000], OTHER, CONTENT + b"x"])
def test_a_mirror_on_another_disk_is_copied_on_from_where_a_copy_ended(source, target, two_disks, left):
    part_of(target, left)
    if left == CONTENT[:1000]:
        source.write_bytes(bytes(1000) + CONTENT[1000:])  # the beginning is not read again
    fetch(str(source), target)
    assert not target.samefile(source)


@pytest.mark.parametrize(
    ("content", "size_bytes", "words"),
    [(OTHER, None, WRONG), (OTHER[:9], len(CONTENT), "holds 9 bytes; expected 1500000")],
)
@pytest.mark.parametrize("disks", [1, 2])
def test_a_mirror_with_another_file(request, source, target, content, size_bytes, words, disks):
    if disks == 2:
        request.getfixturevalue("two_disks")
    source.write_bytes(content)
    assert trouble_with(str(source), target, size_bytes) == words
    assert nothing_is_left(target)
    assert source.read_bytes() == content


def test_a_mirror_with_something_else_than_a_file(tmp_path, target):
    assert trouble_with(str(tmp_path), target) == "is not a regular file"
    os.mkfifo(tmp_path / "pipe")
    assert trouble_with(str(tmp_path / "pipe"), target) == "is not a regular file"
    assert trouble_with(str(tmp_path / "missing"), target) == "no such file"


@pytest.fixture
def certificate(tmp_path) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by nobody but itself."""
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    try:
        subprocess.run([*command, *names, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("the test's certificate is made by openssl, which is not here")
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


def test_a_certificate_that_nobody_vouches_for_is_refused(secure, target, monkeypatch, capfd):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    words = trouble_with(f"{secure.url}/right", target)
    assert words in {f"its certificate is refused (self{mark}signed certificate)" for mark in "- "}
    assert capfd.readouterr().err == "", "no second attempt is announced"
    assert secure.paths == [], "not even the address is told to it"
    assert nothing_is_left(target)


def test_a_certificate_that_the_environment_vouches_for(secure, target, certificate, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    fetch(f"{secure.url}/right", target)
    monkeypatch.setenv("no_proxy", "localhost")
    target.unlink()
    words = trouble_with(f"{secure.url.replace('127.0.0.1', 'localhost')}/right", target)
    assert words.startswith("its certificate is refused (Hostname mismatch, ")


def test_a_proxy_is_asked_in_the_place_of_the_server(server, target, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    server.answers["http://data.invalid/a.gz"] = [closes_after(700_000), whole]
    fetch("http://data.invalid/a.gz", target)
    assert server.paths == ["http://data.invalid/a.gz"] * 2
    assert server.ranges == [None, "bytes=700000-"]
    target.unlink()
    with Server(CONTENT) as closed:
        monkeypatch.setenv("http_proxy", closed.url.replace("//", "//user:pass-word@"))
    assert trouble_with("http://data.invalid/a.gz", target) == "no connection (ProxyError)"
