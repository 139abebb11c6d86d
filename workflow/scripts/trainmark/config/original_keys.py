"""The keys of the original ImageNet recipe's config files, in each version that was published."""

from typing import Any

from trainmark.config.original_defects import GPUS, REMOVED


def _one_of(*values: str) -> dict:
    return {"enum": list(values)}


STORES = {"original": "files", "io": "files", "custom": "memory", "development": "memory"}
"""Where the images are: custom and development read all of them before the training, original and io when needed."""

COUNT = {"type": "integer", "minimum": 1, "allowed": "a whole number, 1 or more"}
TEXT = {"type": "string", "minLength": 1, "allowed": "text"}
PATH = {"type": ["string", "null"], "minLength": 1, "allowed": "a path, or null"}
TEXTS = {"type": ["object", "null"], "allowed": "a mapping of keys to values, or null"}
LIST_KEYS = ("train", "train_root", "val", "val_root", "root", "dataset_dir")
"""Lists of images, and the folders at which their paths start."""

SETTINGS: dict[str, Any] = {
    "type": "object",
    "required": ["arch", "epoch", "batchsize"],
    "properties": {
        "nodetype": _one_of(*GPUS),
        "nnodes": COUNT,
        "walltime": {"type": "string", "pattern": r"^\d+:[0-5]?\d:[0-5]?\d$(?!\n)", "allowed": "hh:mm:ss"},
        "jobname": TEXT,
        "stdout": TEXT,
        "stderr": TEXT,
        "others": TEXTS,
        "modules": {"type": ["string", "object", "null"], "allowed": "a file with `module load` lines, or a mapping"},
        "vars": PATH,
        "nclasses": {"type": "integer", "minimum": 2, "maximum": 1000, "allowed": "a whole number, 2 to 1000"},
        **dict.fromkeys(LIST_KEYS, PATH),
        "mean": PATH,
        "arch": _one_of("alex", "googlenet", "googlenetbn", "nin", "resnet50"),
        "epoch": COUNT,
        "batchsize": COUNT,
        "loaderjob": {"type": ["integer", "null"], "minimum": 1, "allowed": "a whole number, 1 or more, or null"},
        "out": TEXT,
        "resume": PATH,
        **dict.fromkeys(("initmodel", "initmodels"), PATH),
        "test": {"type": ["boolean", "null"], "allowed": "true or null"},
        "communicator": {
            "enum": ["pure_nccl", "flat", "naive", *REMOVED],
            "allowed": f"pure_nccl, flat, naive and, of before Chainer 7, {', '.join(REMOVED)}",
        },
        "loadtype": _one_of(*STORES),
        "iterator": _one_of("serial", "thread", "process"),
        "optimizer": _one_of("momentum_sgd", "adam", "rmsprop_warmup", "rmsprop"),
    },
}
"""The settings of the original recipe (JSON Schema)."""

_EARLIER = "another version of the original calls it so"

OTHER_KEYS = {
    "mean.npy": ("mean", "the original's documentation calls it mean.npy, and its program read mean"),
    "nnodetype": ("nodetype", "the original's documentation calls it nnodetype, and its program read nodetype"),
    "resource": ("nodetype", _EARLIER),
    "node": ("nnodes", _EARLIER),
    "time": ("walltime", _EARLIER),
    "dataset": ("dataset_dir", _EARLIER),
    "envs_file": ("vars", _EARLIER),
}
"""Other names of keys: the right name, and what is reported."""

NOT_IMPORTED = {
    "they are of K-FAC, which is not here; the runs train with {rule}": (
        "lr", "momentum", "weight_decay", "damping", "cov_ema_decay", "inv_freq", "inv_alg", "use_doubly_factored",
        "cov_batchsize", "n_cov_workers", "n_inv_workers", "join_cov", "npergroup", "comm_core",
    ),
    "they are of the original's job, which the profile writes here": ("working_dir", "ignored_files", "mpirun_ops"),
}  # fmt: skip
"""Keys of other versions of the original that have no place in an experiment file, by the reason."""

MISSPELT = {
    ("iterator", "processes"): (
        "process",
        "there is no iterator processes, and the original took the serial one instead",
    )
}
"""Values of the original's own samples that its program did not know: what was meant, and what is reported."""
