"""List the results that no config names: runs of earlier settings, code and data. With --remove, delete them."""

import argparse
import shutil
from pathlib import Path

from trainmark.config.load import load_config, read_documents
from trainmark.errors import run_command
from trainmark.machine.gpus import find_gpus
from trainmark.machine.locks import hold_directory
from trainmark.plan.jobs import Folder, make_plan
from trainmark.plan.local_files import with_local_files
from trainmark.plan.matrix import asks_for_gpus, datasets_of, with_devices
from trainmark.plan.own_data import own_data
from trainmark.plan.plan_file import read_plan
from trainmark.plan.products import PLAN_FILE, RESULTS
from trainmark.session.kept import unnamed


def main() -> None:
    """Find what neither the last call of snakemake nor a given config names, print it and, on request, delete it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "config", nargs="*", type=Path, help="further configs whose results are kept (default: that of the last call)"
    )
    parser.add_argument("--remove", action="store_true", help="delete what is listed")
    arguments = parser.parse_args()
    with hold_directory(Path.cwd()):
        plans = [read_plan(Path(PLAN_FILE)), *map(_plan_of, arguments.config)]
        found = unnamed(Path(RESULTS), plans)
        total = 0
        for path in found:
            size = _bytes_of(path)
            total += size
            print(f"{path}: {size / 1e6:.1f} MB")
            if arguments.remove:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = "removed" if arguments.remove else "that no config names"
    print(f"{len(found)} result{'' if len(found) == 1 else 's'} {done}, {total / 1e6:.1f} MB")


def _plan_of(file: Path) -> dict:
    """Return the plan of a config as a call of snakemake would make it here."""
    config, catalogue = with_local_files(*load_config([file]), read_documents([file]), refuses=False)
    gpu_found = asks_for_gpus(config) and bool(find_gpus())
    own = own_data(datasets_of(config, catalogue), catalogue, read_plan(Path(PLAN_FILE)))
    return make_plan(with_devices(config, gpu_found), catalogue, own=own, folder=Folder(any_code=config["any_code"]))


def _bytes_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    run_command(main)
