"""A campaign on a remote machine with Slurm: another user's, reached through a real sshd."""

import pytest
from harness import experiment_of, finish, write_config
from remote_machine import needs_machine, remote_machine
from same_results import compare, records_of

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1200),
    needs_machine,
]

CONFIG = {"experiments": {"small": experiment_of(epochs=[1, 3], repeats=2, keep_weights=True)}}


def test_the_profile_of_a_cluster_works_there(slurm, tmp_path_factory):
    """The user's ~/.bashrc sets the scheduler's variables, and the site file is that of this folder."""
    local, folder = tmp_path_factory.mktemp("local"), tmp_path_factory.mktemp("here")
    for place in (local, folder):
        write_config(place, CONFIG)
    finish(local, "--cores", "2", "--configfile", "experiment.yaml")
    with remote_machine(tmp_path_factory.mktemp("machine")) as machine:
        for name, value in slurm.environment.items():
            machine.write(".bashrc", f"export {name}='{value}'\n")
        (folder / "config").mkdir()
        (folder / "config" / "site.yaml").write_text(f"lock_folder: {machine.home}/locks\n")
        profile = ("--", "--workflow-profile", "profiles/slurm", "--seconds-between-status-checks", "2")
        done = machine.remote("run", "experiment.yaml", *profile, folder=folder)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    print("\n".join(compare(local / "results", folder / "results")))
    assert all(record["provenance"]["scheduler"]["job_id"] for record in records_of(folder / "results").values())
