"""Runs of one table that differ in code or machine are named."""

import pytest
from records_for_tests import ON_ONE_CPU, changed, record, session

from trainmark.tables.mixed_environments import (
    code_versions,
    mixed_code,
    mixed_compilation,
    mixed_machines,
    mixed_settings,
    resumed_elsewhere,
)

SLOW = {"DNNL_MAX_CPU_ISA": "SSE41"}


def with_code(framework, repeat, shared="a", own="c"):
    """A record of a run with other digests of its code."""
    return record(framework, repeat, changes={"provenance.code": {"sha256": own * 16, "shared": shared * 16}})


def test_adapters_of_different_frameworks_do_not_count_as_different_code(runs_of):
    runs = runs_of(with_code("a", 1, own="1"), with_code("b", 1, own="3"), record("c"))
    assert code_versions(runs) == 1
    assert mixed_code(runs) == []


def test_code_that_all_share_and_that_of_one_framework_are_named(runs_of):
    runs = runs_of(with_code("a", 1), with_code("a", 2, own="d"), with_code("b", 1), with_code("b", 2, "f", "f"))
    assert code_versions(runs) == 2
    of_one, of_other, shared = mixed_code(runs)
    assert of_one.startswith("Different code trained run 1 and run 2. ")
    assert of_other.startswith("Different code trained run 3 and run 4. ")
    assert shared.startswith("Different code trained run 4 and runs 1-3. ")


@pytest.mark.parametrize(
    ("changes", "other"), [({"provenance.cpu_model": "Other"}, "Other, 2 CPUs"), (ON_ONE_CPU, "Processor, 1 CPU")]
)
def test_runs_of_different_machines_are_named(runs_of, changes, other):
    (sentence,) = mixed_machines(runs_of(record("a", 1), record("a", 2, changes=changes)))
    assert f"cpu runs were trained on different machines: Processor, 2 CPUs (run 1) and {other} (run 2). " in sentence


def test_settings_of_libraries_that_some_runs_have_are_named(runs_of):
    runs = runs_of(*(record("a", 1 + i, changes={"sessions.0.settings": it}) for i, it in enumerate([{}, SLOW, SLOW])))
    (sentence,) = mixed_settings(runs)
    assert "in the environment differ: none (run 1); DNNL_MAX_CPU_ISA=SSE41 (runs 2-3). " in sentence
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
