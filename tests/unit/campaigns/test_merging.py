"""Merged campaigns: the numbers of the single folders under other names, and a folder that verify.py finds whole."""

import json
import shutil
import zipfile

import pytest
from campaigns_for_tests import write_other
from merge import main
from records_for_tests import changed

from trainmark.campaigns.folders import read_campaign
from trainmark.campaigns.merging import merge
from trainmark.errors import DataError
from trainmark.files.seal import sealed
from trainmark.plan.figures import FIGURE_FORMATS
from trainmark.report import remade
from trainmark.tables.numbers import read_numbers
from trainmark.verification.results import verify_results

VARIANTS = {"adam": {}, "momentum": {"optimizer": {"rule": "momentum_sgd", "learning_rate": 0.1}}}


@pytest.fixture(autouse=True, scope="module")
def empty_figures():
    """Figures are empty, because drawing them takes a minute."""

    def save_figures(data, folder, names):
        folder.mkdir(parents=True, exist_ok=True)
        for file in (folder / f"{name}.{kind}" for name in names for kind in FIGURE_FORMATS):
            file.write_text('<svg width="252pt" height="10pt"></svg>')

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remade, "save_figures", save_figures)
        yield


def write(folder, host, **options):
    """Write the results folder of a campaign of this host, and return it."""
    of_host = {"weights": None, "provenance.host": host, "sessions.0.host": host, "sessions.0.boot_id": host}
    return write_other(folder, changes=of_host, seed=len(host), **{"repeats": 6} | options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three results folders, by label: of two trainers, the same on another machine, and of variants."""
    folder = tmp_path_factory.mktemp("given") / "it's a folder"
    return {
        "laptop": write(folder / "one", "alpha"),
        "node-2": write(folder / "results" / "x" / "results", "beta-2", factor=1.1).parent,  # as in a clone
        "v": write(folder / "variants", "gamma-gamma", repeats=2, experiment={"variants": VARIANTS}),
    }


@pytest.fixture(scope="module")
def merged(folders, tmp_path_factory):
    """They, merged."""
    out = tmp_path_factory.mktemp("merged") / "new" / "all"
    merge([*folders.items()], out)
    return out


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def numbers(folder):
    """The table of numbers without what is another in a merged campaign: numbers of runs."""
    return read_numbers(folder / "tables" / "numbers.csv").drop(columns=["run_numbers", "left_out_run_numbers"])


def edit(folder, file, changes):
    """Change a JSON file at some paths of keys, and seal it if it was."""
    path = next(folder.glob(file))
    document = json.loads(path.read_text())
    path.write_text(json.dumps(changed(document, changes) if "run" in document else document | changes))
    return path


def test_numbers_are_those_of_the_folders(folders, merged):
    found = numbers(merged)
    for label, folder in folders.items():
        expected = numbers(folder if (folder / "tables").is_dir() else folder / "results")
        renamed = expected["experiment"].str.replace("small", f"small-{label}", regex=False)
        of_label = found[found["experiment"].str.match(rf"small-{label}(\.|$)")].reset_index(drop=True)
        assert of_label.equals(expected.assign(experiment=renamed))


def test_verify_finds_no_problem(merged):
    assert verify_results(merged, data=False).problems == []


def test_the_page_keeps_machines_apart(merged):
    page = (merged / "report" / "index.html").read_text()
    for text in (
        "laptop: one, trained on alpha (Processor).",
        "node-2: x, trained on beta-2 (Processor).",
        "v: variants, trained on gamma-gamma (Processor).",
    ):
        assert text in page
    runs = read_campaign(merged).runs
    assert runs.groupby("experiment")["host"].unique().map(list).to_dict() == {
        "small-laptop": ["alpha"],
        "small-node-2": ["beta-2"],
        "small-v.adam": ["gamma-gamma"],
        "small-v.momentum": ["gamma-gamma"],
    }
    assert sorted(runs["number"]) == list(range(1, 33))


@pytest.mark.slow
def test_a_merged_folder_merges_again_and_the_given_ones_stay(tmp_path):
    one, other = (write(tmp_path / name, name, repeats=2) for name in ("one", "other"))
    merge([("a", one)], tmp_path / "merged")
    before = content(tmp_path)
    merge([("b", tmp_path / "merged"), ("c", other)], tmp_path / "again")
    assert verify_results(tmp_path / "again", data=False).problems == []
    assert {*read_campaign(tmp_path / "again").runs["experiment"]} == {"small-a-b", "small-c"}
    assert {path: data for path, data in content(tmp_path).items() if path.parts[0] != "again"} == before


@pytest.mark.slow
def test_an_archive_gives_what_its_folder_gives(folders, merged, tmp_path):
    given = []
    for label, folder in folders.items():
        given.append((label, tmp_path / f"{label}.zip"))
        results = folder if (folder / "tables").is_dir() else folder / "results"
        with zipfile.ZipFile(given[-1][1], "w") as archive:
            for name, data in content(results).items():
                archive.writestr(f"{label}/results/{name}", data)
    merge(given, tmp_path / "out")
    assert numbers(tmp_path / "out").equals(numbers(merged))


def test_a_run_that_two_folders_hold_is_named(folders, merged, tmp_path):
    shutil.copytree(folders["laptop"], tmp_path / "copy")
    with pytest.raises(DataError, match=r"hold the same 12 runs.*small/mnist-mlp-flux/digits/chainer-cpu/epochs-3"):
        merge([("a", folders["laptop"]), ("b", tmp_path / "copy")], tmp_path / "out")
    with pytest.raises(DataError, match=r"hold the same 12 runs.*small-laptop/"):
        merge([("a", merged), ("b", folders["laptop"])], tmp_path / "out")  # with another name, and so another record
    assert not (tmp_path / "out").exists()


OWN = {"values": {"name": "mine", "source": "a.py"}, "network": "f", "graphs": {"1x8x8/10": {"nodes": []}}}
OTHER = OWN | {"graphs": {"1x8x8/10": {"nodes": [1]}}}


@pytest.mark.parametrize(
    ("label", "changes", "message"),
    [
        ("B", {}, "small-B is no name of an experiment; allowed: lower-case letters, digits and hyphens, 40 at most"),
        ("b" * 35, {}, "is no name of an experiment"),
        ("../b", {}, "is no name of an experiment"),
        ("a", {}, "differ in the experiment small-a; choose other labels"),
        ("b", {"prices": {"cpu_hour": 1}}, "differ in the prices; set the same"),
        ("b", {"recipes": [OTHER]}, "differ in the network mine for 1x8x8/10; give one another name"),
        ("b", {"recipes": [OWN | {"values": {"name": "mine"} | {"batch_size": 1}}]}, "differ in the recipe mine; give"),
        ("b", {"records": {}}, "its tables are not of the runs of its plan.json"),
        (
            "b",
            {"certificates": {"small/a/b": {"file": "../../x.json"}}},
            "x.json in its plan, which is no path in a results folder",
        ),
        ("b", {"experiments": {}}, "can't be one campaign"),
    ],
)
def test_refused_in_a_sentence(folders, tmp_path, label, changes, message):
    given = [tmp_path / "a" / "a", tmp_path / "b" / "b"]
    shutil.copytree(folders["laptop"], given[0])
    shutil.copytree(folders["node-2"] / "results", given[1])
    (tmp_path / "x.json").write_text(json.dumps(sealed({})))
    edit(given[0], "plan.json", {"recipes": [OWN]} if "recipes" in changes else {})
    of_config = changes.keys() & {"prices", "experiments"}
    config = json.loads((given[1] / "plan.json").read_text())["config"] | {key: changes[key] for key in of_config}
    edit(given[1], "plan.json", {"config": config} if of_config else changes)
    with pytest.raises(DataError, match=message):
        merge([("a", given[0]), (label, given[1])], tmp_path / "out")
    assert {*tmp_path.iterdir()} == {tmp_path / "a", tmp_path / "b", tmp_path / "x.json"}


def test_another_dataset_of_the_same_name_is_refused(folders, tmp_path):
    of_data = {"dataset.mean_sha256": "1" * 64}
    other = write_other(tmp_path / "b", changes={"sessions.0.host": "b", "weights": None} | of_data, repeats=2)
    with pytest.raises(DataError, match="differ in the dataset digits; give one another name in its config"):
        merge([("a", folders["laptop"]), ("b", other)], tmp_path / "out")


def test_an_edited_certificate_is_refused(folders, tmp_path):
    shutil.copytree(folders["laptop"], tmp_path / "a")
    edit(tmp_path / "a", "certificates/**/*.json", {"pairs": []})
    with pytest.raises(DataError, match=r"certificates/small.*was changed after it was written"):
        merge([("a", tmp_path / "a")], tmp_path / "out")


@pytest.mark.parametrize("place", ["full", "a file", "given/inside"])
def test_nothing_is_replaced_and_nothing_written_into_a_given_folder(folders, tmp_path, place):
    shutil.copytree(folders["laptop"], tmp_path / "given")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").touch()
    (tmp_path / "a file").touch()
    before = content(tmp_path)
    with pytest.raises(DataError, match=r"allowed: a (new or an empty folder|folder elsewhere)"):
        merge([("a", tmp_path / "given")], tmp_path / place)
    assert content(tmp_path) == before


def test_claims_and_descriptions_say_where_they_are_from(folders, tmp_path):
    given = tmp_path / "a"
    shutil.copytree(folders["laptop"], given)
    config = json.loads((given / "plan.json").read_text())["config"]
    claims = [{"says": "All are certified.", "pairs": "certified"}, {"says": "x", "where": {"experiment": "small"}}]
    edit(given, "plan.json", {"config": config | {"claims": claims}})
    merge([("a", given), ("b", folders["node-2"])], tmp_path / "out")
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["config"]["claims"] == [
        {"says": "a: All are certified.", "pairs": "certified", "where": {"experiment": "small-a"}},
        {"says": "a: x", "where": {"experiment": "small-a"}},
    ]


def test_the_command_needs_labels(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["merge.py", "--out", "out", "results"])
    with pytest.raises(SystemExit):
        main()
    assert "found results; allowed: LABEL=FOLDER, such as laptop=results" in capsys.readouterr().err
