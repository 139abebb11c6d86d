"""Addresses and mirrors: what is shown of them, and which cannot be fetched from."""

import pytest

from trainmark.datasets.fetching.addresses import host_of, mirror_problem, without_credentials

ALLOWED = "allowed: a folder, or a file://, http:// or https:// address"


@pytest.mark.parametrize(
    ("address", "shown", "host"),
    [
        ("https://user:pw@example.org:8443/a?x=1#y", "https://example.org:8443/a", "example.org:8443"),
        ("http://example.org/a/b.gz", "http://example.org/a/b.gz", "example.org"),
        ("http://u:p@[::1]:80/a", "http://[::1]:80/a", "::1:80"),
        ("http://example.org:99999/a?x=1", "http://...", None),
        ("https://[x/a?x=1", "https://...", None),
        ("http:///a", "http://...", None),
        ("/data/mirror/a.gz", "/data/mirror/a.gz", None),
        ("file:///data/a.gz", "file:///data/a.gz", None),
        ("ftp://user:pw@example.org/a?x=1", "ftp://example.org/a", "example.org"),
    ],
)
def test_without_credentials_and_host(address, shown, host):
    assert (without_credentials(address), host_of(address)) == (shown, host)


FOLDERS = ["{0}", "{0}/", "data", "~/data", "file://{0}", "file://localhost{0}"]
WEB = ["http://example.invalid", "HTTPS://user:pw@example.invalid:8443/data?sig=key"]


@pytest.mark.parametrize("mirror", FOLDERS + WEB)
def test_a_folder_that_is_there_or_a_web_address_which_is_not_asked(tmp_path, monkeypatch, mirror):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert mirror_problem(mirror.format(tmp_path / "data")) is None


@pytest.mark.parametrize(
    "mirror", ["{0}/none", "~/none", "~nobody-of-this-name/data", "file://{0}/none", "file", "data"]
)
def test_a_folder_that_is_not_there(tmp_path, monkeypatch, mirror):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    relative = mirror in ("file", "data", "~nobody-of-this-name/data")
    where = f" in {tmp_path}" if relative else ""
    mirror = mirror.format(tmp_path)
    assert mirror_problem(mirror) == f"found {mirror}, which is not an existing folder{where}; {ALLOWED}"


@pytest.mark.parametrize(
    ("mirror", "problem"),
    [
        ("ftp://user:pw@example.org/data?sig=key", "ftp://example.org/data, an address with an unknown scheme"),
        ("FILE:///data", "FILE://..., an address with an unknown scheme"),
        ("https:///data?sig=key", "https://..., an address without a valid host"),
        ("http:/user:pw@example.org/data", "http://..., an address without a valid host"),
        ("http://example.org:port/?sig=key", "http://..., an address without a valid host"),
        ("file://user:pw@server/data?sig=key", "file://...@server/data?..., a file:// address with a host in it"),
        ("user:pw@example.org/data?sig=key", "...@example.org/data?..., which is not an existing folder in "),
        ("example.org/data?sig=key", "example.org/data?..., which is not an existing folder in "),
    ],
)
def test_what_no_file_can_be_fetched_from(mirror, problem):
    found = mirror_problem(mirror)
    assert found.startswith(f"found {problem}") and found.endswith(f"; {ALLOWED}")
    for secret in ("user", "pw", "sig", "key"):
        assert secret not in found
