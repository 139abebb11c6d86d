"""Files and folders of this machine that a config names: looked at before anything runs."""

from pathlib import Path

import pytest

from trainmark.config.load import load_config
from trainmark.errors import ConfigError
from trainmark.files.checksums import sha256_of
from trainmark.plan.local_files import with_local_files

METRICS = {"format": "json-lines", "columns": {"loss": "loss"}}


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    """A script in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINMARK_MIRROR", raising=False)
    Path("a.py").write_text("print(1)")
    return Path("a.py")


def of_command(line="python a.py", **file):
    files = [{"path": "a.py", "urls": ["a.py"], **file}]
    command = {"command": line, "files": files, "metrics": METRICS}
    return {"experiments": {"e": {"commands": {"c": command}}}}


def of_dataset(**entry):
    common = {"title": "D", "format": "npz", "image_shape": [1, 8, 8], "classes": 3}
    return {"prepare": ["mine"], "datasets": {"mine": common | entry}}


def looked_at(config, **options):
    return with_local_files(*load_config([], config, "the config"), {"the config": config}, **options)


def file_of(address, **file):
    return of_dataset(files=[{"name": "a.npz", "urls": [address], **file}])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (of_command(urls=["b.py"]), ["commands.c.files[0]", "b.py, which is not there"]),
        (of_command(urls=["b.py"], sha256="a" * 64), ["commands.c.files[0]", "b.py, which is not there"]),
        (of_command(sha256="a" * 64), ["a.py has changed, its sha256 is now", "NOW"]),
        (of_command("python -u b.py {epochs}"), ["c.command: found b.py, which is none of its files", "mean a.py"]),
        (of_command("mpiexec -n 2 ./run.sh"), ["found ./run.sh, which is none of its files"]),
        (of_command("python /no/b.py"), ["c.command: found /no/b.py, which is not there"]),
        (of_dataset(folder="no"), ["datasets.mine.folder: found no, which is not there"]),
        (of_dataset(folder="."), ["datasets.mine.folder", "holds no *.npz"]),
        (file_of("file:///no/a.npz"), ["mine.files[0]", "/no/a.npz, which is not there"]),
        (file_of("file:///no/a.npz", md5="a" * 32), ["mine.files[0]", "/no/a.npz, which is not there"]),
    ],
)
def test_what_is_not_there_or_has_changed_is_refused(config, words, script):
    with pytest.raises(ConfigError) as caught:
        looked_at(config)
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert (sha256_of(script) if word == "NOW" else word) in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ["python a.py", "python -u ./a.py", "python -m a", "sh -c 'cd x && python b.py'", "python {trainmark}/x.py a.py"],
)
def test_commands_whose_script_is_there_or_cannot_be_known(line):
    looked_at(of_command(line))


def test_a_file_without_a_checksum_counts_as_it_is(script):
    def digest(config):
        changed, catalogue = looked_at(config)
        files = (
            catalogue["mine"]["files"] if config["prepare"] else changed["experiments"]["e"]["commands"]["c"]["files"]
        )
        assert config["prepare"] == [] or changed["datasets"]["mine"]["files"] == files
        return files[0]["sha256"]

    for config in ({"prepare": []} | of_command(), file_of(script.resolve().as_uri())):
        before = digest(config)
        assert before == sha256_of(script)
        script.write_text(script.read_text() + "#")
        assert digest(config) == sha256_of(script) != before


def test_a_fetched_file_or_one_of_the_mirror_stands_in_for_one_that_is_gone(script):
    digest = sha256_of(script)
    fetched = Path("results/commands/e/c/0-0/files/a.py")
    fetched.parent.mkdir(parents=True)
    script.rename(fetched)
    looked_at(of_command(sha256=digest))
    with pytest.raises(ConfigError, match="not there"):  # it may be of another file
        looked_at(of_command())
    Path("mirror/mine").mkdir(parents=True)
    fetched.rename("mirror/mine/a.npz")
    looked_at(file_of("file:///no/a.npz", sha256=digest) | {"mirror": "mirror"})


def test_folders_of_a_clusters_nodes_and_of_prepared_datasets_are_not_looked_at():
    looked_at(of_dataset(folder="no"), here=False)
    Path("results/datasets/mine/0-0/prepared").mkdir(parents=True)
    Path("results/datasets/mine/0-0/prepared/manifest.json").touch()
    looked_at(of_dataset(folder="no"))
