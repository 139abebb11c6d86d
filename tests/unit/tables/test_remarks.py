"""Runs of one table that differ in code or machine are named, and those that nobody evaluated."""

import pytest
from records_for_tests import (
    CODE,
    ON_ONE_CPU,
    certificates_of,
    changed,
    evaluation_entry,
    record,
    session,
    written_tables,
)

from trainmark.tables.remarks import (
    code_differences,
    evaluation_gaps,
    missing_lines,
    mixed_calls,
    mixed_code,
    mixed_compilation,
    mixed_machines,
    mixed_settings,
    mixed_versions,
    resumed_elsewhere,
)

SLOW = {"DNNL_MAX_CPU_ISA": "SSE41"}


def with_code(framework, repeat, shared="a", own="c"):
    """A record of a run with other digests of its code."""
    return record(framework, repeat, changes={"provenance.code": {"sha256": own * 16, "shared": shared * 16}})


def test_adapters_of_different_frameworks_do_not_count_as_different_code(runs_of):
    runs = runs_of(with_code("a", 1, own="1"), with_code("b", 1, own="3"), record("c"))
    assert mixed_code(runs) == []


def test_code_that_all_share_and_that_of_one_framework_are_named(runs_of):
    runs = runs_of(with_code("a", 1), with_code("a", 2, own="d"), with_code("b", 1), with_code("b", 2, "f", "f"))
    of_one, of_other, shared = mixed_code(runs)
    assert of_one == "Different code trained run 1 and run 2."
    assert of_other == "Different code trained run 3 and run 4."
    assert shared == "Different code trained run 4 and runs 1-3."


@pytest.mark.parametrize(
    ("changes", "other"), [({"provenance.cpu_model": "Other"}, "Other, 2 CPUs"), (ON_ONE_CPU, "Processor, 1 CPU")]
)
def test_runs_of_different_machines_are_named(runs_of, changes, other):
    (sentence,) = mixed_machines(runs_of(record("a", 1), record("a", 2, changes=changes)))
    assert f"cpu runs were trained on different machines: Processor, 2 CPUs (run 1) and {other} (run 2)." in sentence


def test_settings_of_libraries_that_some_runs_have_are_named(runs_of):
    runs = runs_of(*(record("a", 1 + i, changes={"sessions.0.settings": it}) for i, it in enumerate([{}, SLOW, SLOW])))
    (sentence,) = mixed_settings(runs)
    assert "in the environment differ: none (run 1); DNNL_MAX_CPU_ISA=SSE41 (runs 2-3)." in sentence
    assert mixed_settings(runs[1:]) == []


def test_a_run_that_was_resumed_on_another_machine_is_named(runs_of):
    moved = record("a", 1, changes={"sessions": [session("h"), session("g", cpus=[3])], "resumes": 1})
    stayed = record("a", 2, changes={"sessions": [session("h"), session("h")], "resumes": 1})
    reset = record("a", 3, changes={"sessions": [session("h"), session("h", settings=SLOW)], "resumes": 1})
    first, second, third = runs_of(changed(moved, {"provenance.threads": 1}), stayed, reset).to_dict("records")
    assert "(h, 2 CPUs of Processor and h, 2 CPUs of Processor with DNNL_MAX_CPU_ISA=SSE41)" in resumed_elsewhere(third)
    assert "different hardware or settings (h, 2 CPUs of Processor and g, 1 CPU of Processor)" in resumed_elsewhere(
        first
    )
    assert resumed_elsewhere(second) is None


def cached(framework, repeat, hits, misses, **run):
    """A record of a run with a compilation cache."""
    changes = {"compilation_cache": {"hits": hits, "misses": misses}, "settings.compilation_cache": True}
    return record(framework, repeat, changes=changes, **run)


def test_runs_that_compiled_what_others_of_their_setting_did_not_are_named(runs_of):
    runs = runs_of(cached("a", 1, 0, 9), cached("a", 2, 9, 0), cached("a", 3, 4, 5), record("b", 1))
    (sentence,) = mixed_compilation(runs)
    assert sentence.startswith("Compiled by runs 1, 3: programs that other runs of the same setting took from")


def test_calls_are_named_with_their_days_and_a_call_over_midnight_is_one(runs_of):
    late, early = ({"provenance.started": f"2025-01-0{day}T00:00:00+00:00"} for day in (1, 2))
    assert mixed_calls(runs_of(record("a", 1, changes=late), record("a", 2, changes=early))) == []
    other = early | {"sessions.0.call": "2025-01-02T00:00:00+00:00"}
    (sentence,) = mixed_calls(runs_of(record("a", 1, changes=late), record("a", 2, changes=other)))
    days = "run 1 on 2025-01-01 (load 0.5), run 2 on 2025-01-02 (load 0.5)"
    assert sentence == f"Trained in 2 calls of snakemake, and mixed only within a call: {days}."


def test_versions_of_one_framework_are_named(runs_of):
    newer = record("b", 2, changes={"provenance.versions": {"b": "2.0"}})
    runs = runs_of(record("a"), record("b"), newer)
    (sentence,) = mixed_versions(runs)
    assert "of b" in sentence and "b 1.0 or b 2.0" in sentence
    assert mixed_versions(runs[:2]) == []


def test_a_certificate_of_other_code_is_named(runs_of):
    runs = runs_of(record("a"), record("b"))
    (certificate,) = certificates_of(runs).values()
    assert code_differences(certificate, runs) == code_differences(None, runs) == []
    certificate["trainers"][1]["code"] = CODE | {"sha256": "0" * 16}
    (sentence,) = code_differences(certificate, runs)
    assert sentence.startswith("The code that was certified for b on cpu differs")


def test_missing_runs_are_counted_and_named_by_their_reason():
    plan = {"order": ["one", "two", "three", "four"], "missing": {"one": "late", "two": "lost", "three": "late"}}
    count, *lines = missing_lines(plan)
    assert count.startswith("Missing: 3 of 4 runs. ") and lines == ["one and 1 more: late", "two: lost"]
    assert missing_lines(plan | {"missing": {}}) == []


# --- weights that nobody evaluated, or by other code ----------------------------------------------------------------


def evaluation(*records, **changes):
    """What another trainer makes of these runs."""
    return {"runs": {one["run"]["id"]: evaluation_entry(one, **changes) for one in records}}


def gaps(folder, *records, evaluations=()):
    return evaluation_gaps(written_tables(folder, *records, evaluations=evaluations)[1])


def test_runs_whose_weights_nobody_evaluated_are_named(tmp_path):
    records = [record("a"), record("a", 2, changes={"weights": None}), record("b"), record("b", 2)]
    (sentence,) = gaps(tmp_path, *records, evaluations=[evaluation(records[0]), evaluation(*records[2:])])
    assert sentence.startswith("No other trainer evaluated the trained weights of run 2.")


def test_a_trainer_of_which_no_epoch_was_audited_is_named(tmp_path):
    records = [record(name, repeat) for name in "ab" for repeat in (1, 2)]
    evaluations = [evaluation(*records[1:3], audit=None), evaluation(records[0], records[3])]
    assert gaps(tmp_path / "some", *records, evaluations=evaluations) == []
    (sentence,) = gaps(tmp_path, *records, evaluations=[evaluation(*records[:2], audit=None), evaluation(*records[2:])])
    assert sentence.startswith("No epoch of runs 1-2 was audited")


def test_runs_that_other_code_evaluated_are_named(tmp_path):
    records = [record("a"), record("a", 2), record("b")]
    outdated = evaluation(*records[:2], current_code=False)
    (sentence,) = gaps(tmp_path, *records, evaluations=[outdated, evaluation(records[2])])
    assert sentence.startswith("The trained weights of runs 1-2 were evaluated by code that has changed since")
