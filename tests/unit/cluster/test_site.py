"""The site file: what is missing or mistaken is said in one line each."""

import re

import pytest
from harness import REPOSITORY

from trainmark.cluster.schedulers import GRID_ENGINE, SLURM, TSUBAME
from trainmark.cluster.site import Site, check_sections, read_site
from trainmark.errors import ClusterError


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Writes the site file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    return lambda text: (tmp_path / "config/site.yaml").write_text(text)


def test_a_whole_file_or_none(site):
    assert read_site(SLURM) == read_site(GRID_ENGINE) == Site()
    site("options: {all: {slurm_account: me}, train: {runtime: 5}}\nruns_per_job: 7\n")
    options = {"all": {"slurm_account": "me"}, "train": {"runtime": 5}}
    assert read_site(SLURM) == Site(options=options, runs_per_job=7)


@pytest.mark.parametrize(("title", "scheduler"), [("Slurm", SLURM), ("Grid Engine", GRID_ENGINE), ("TSUBAME", TSUBAME)])
def test_the_files_of_the_page_are_accepted(site, title, scheduler):
    page = (REPOSITORY / "docs" / "clusters.md").read_text()
    site(re.search(rf"```yaml\n(# {title}.*?)```", page, re.DOTALL)[1])
    assert read_site(scheduler).options["train"]["runtime"] < 24 * 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optoins: {}", "there is no key optoins; allowed: options, modules"),
        ("options: {all: 3}", "options.all: found 3; allowed: a mapping of"),
        ("options: {all: {acount: me}}", "options.all: Slurm has no value acount; allowed: .*slurm_account"),
        ("options: {train: {runtime: 2h}}", "options.train.runtime: found '2h'; allowed: a whole number above 0"),
        ("options: {all: {jobname: a/b}}", "options.all.jobname: found 'a/b'; allowed: letters, digits"),
        ("runs_per_job: 51", "runs_per_job: found 51; allowed: 1 to 50"),
        ("modules: nowhere.sh", "modules: there is no file nowhere.sh"),
    ],
)
def test_mistakes(site, text, message):
    site(text)
    with pytest.raises(ClusterError, match=rf"^config/site\.yaml: {message}"):
        read_site(SLURM)


def test_a_section_that_is_no_rule(site):
    site("options: {all: {}, gpu: {}, train: {}, trian: {}}")
    with pytest.raises(ClusterError, match=r"options: there is no rule trian; allowed: all, gpu, report, train$"):
        check_sections(read_site(SLURM), ["report", "train"])


def test_tsubame_says_what_it_needs(site):
    with pytest.raises(ClusterError) as error:
        read_site(TSUBAME)
    assert "options.all.group is missing (-g: without it a job is a trial of 10 minutes" in str(error.value)
    assert "options.all.node_type is missing (one of f_node, h_node, q_node and s_gpu)" in str(error.value)
    site("options: {all: {group: null, node_type: g_node}}")
    with pytest.raises(ClusterError, match="node_type: found g_node; allowed: f_node, h_node, q_node, s_gpu"):
        read_site(TSUBAME)


def test_a_file_that_the_variable_names_must_be_there(site, monkeypatch):
    monkeypatch.setenv("TRAINMARK_SITE", "elsewhere.yaml")
    with pytest.raises(ClusterError, match=r"there is no file elsewhere\.yaml, which TRAINMARK_SITE names"):
        read_site(SLURM)
