"""Take over a network from a torch.nn.Module: write it as a file of your own, and prove that it is the same.

The file is one for the key `networks` of a config (docs/pytorch_and_jax.md). PyTorch must be installed: make torch.
"""

import argparse
import importlib.util
import os
import re
import sys
from math import prod
from pathlib import Path
from typing import Any

from trainmark.errors import ConfigError, DataError, in_one_sentence, run_command
from trainmark.recipes.own import NAME, NAME_ALLOWED


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "module", metavar="FILE:NAME", help="file, and the class, function or module in it: my_model.py:MyModel"
    )
    parser.add_argument(
        "--input",
        required=True,
        type=_shape,
        help="shape of one input: channels,height,width of an image (3,32,32), or the number of token ids of a text",
    )
    parser.add_argument("--name", help="name of the recipe (default: that of the class or function)")
    parser.add_argument("--out", type=Path, help="output: the file (default: <name>_network.py)")
    return parser.parse_args()


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(map(int, text.split(",")))
    except ValueError:
        shape = ()
    if len(shape) not in (1, 3) or min(shape) < 1 or prod(shape) > 10**8:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 3,32,32 for an image, or 400 for a text")
    return shape


def load_module(named: str) -> Any:
    """Return the torch.nn.Module that a file makes. Raises ConfigError if it makes none."""
    from torch.nn import Module

    file, _, name = named.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(f"found {named}; allowed: an existing file and a name in it, such as my_model.py:MyModel")
    if path.stem in sys.stdlib_module_names | {"torch", "numpy"}:
        raise ConfigError(f"{file} has the name of a module of Python or a package, which it hides; rename it")
    sys.path.insert(0, str(path.resolve().parent))  # the file may import others beside it
    here, arguments, sys.argv = Path.cwd(), sys.argv, [file]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    try:
        spec.loader.exec_module(loaded)
        made = getattr(loaded, name)
        made = made() if callable(made) and not isinstance(made, Module) else made
    except (Exception, SystemExit) as error:  # of the user's code
        raise ConfigError(f"{named} can't be made: {in_one_sentence(error)}") from error
    finally:
        sys.argv = arguments
        os.chdir(here)
    if not isinstance(made, Module):
        raise ConfigError(f"{named} is no torch.nn.Module and makes none, but {type(made).__name__}")
    return made


def named_as(arguments: argparse.Namespace) -> tuple[str, Path]:
    """Return the name of the recipe and the file to write. Raises DataError if one is not possible."""
    made = arguments.module.rpartition(":")[2].removeprefix("make_")
    name = arguments.name or re.sub("[^a-z0-9]+", "-", made.lower()).strip("-")
    out = arguments.out or Path(f"{name.replace('-', '_')}_network.py")
    if not re.fullmatch(NAME, name):
        raise DataError(f"--name: found {name!r}; allowed: {NAME_ALLOWED}")
    if out.suffix != ".py" or not out.absolute().parent.is_dir():
        raise DataError(f"--out: found {out}; allowed: a file that ends in .py, in a folder that exists")
    for file in (out, out.with_suffix(".npz")):
        if file.exists():
            raise DataError(f"{file} exists already; delete it, or name another file with --out")
    return name, out


def main() -> None:
    """Import the module of the command line."""
    arguments = parse_arguments()
    name, out = named_as(arguments)
    try:
        import torch
    except ImportError as error:
        raise DataError("PyTorch is not installed here: make torch") from error

    from trainmark.importing.network import SAMPLES, Builder, traced
    from trainmark.importing.proof import initial_weights, prove
    from trainmark.importing.writing import write

    module = load_module(arguments.module)
    tokens = [one.num_embeddings for one in module.modules() if isinstance(one, torch.nn.Embedding)]
    torch.manual_seed(1)
    if len(arguments.input) == 1 and tokens:
        inputs = torch.randint(0, min(tokens), (SAMPLES, *arguments.input))
    else:
        inputs = torch.randn(SAMPLES, *arguments.input)
    imported = Builder(traced(module, inputs), arguments.input).build(name)
    weights = initial_weights(imported, module)  # a proof changes them
    difference = prove(imported, module, inputs)
    write(imported.architecture, weights, arguments.module, out)
    count = imported.architecture.parameter_count()
    print(f"{name}: {count:,} parameters in {len(imported.architecture.nodes)} layers")
    print(
        "outputs, gradients and running statistics equal those of the module in float64, in train and eval mode "
        f"(largest difference {difference:.1e})"
    )
    print(f"wrote {out}, and the module's initial weights as {out.with_suffix('.npz')}")
    print(f"networks: [{out}]\nexperiments:\n  mine:\n    recipes: [{name}]")
    print(f"    initial_weights: {out.with_suffix('.npz')}  # without it: as torch.nn draws them, others for each seed")


if __name__ == "__main__":
    run_command(main)
