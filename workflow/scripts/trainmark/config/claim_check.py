"""Check the claims of a config for mistakes that the schema cannot find. Each is reported in one sentence."""

from collections.abc import Iterator, Mapping

from trainmark.config.schema_check import Finding
from trainmark.config.wording import format_value
from trainmark.recipes.command import DATASET
from trainmark.variant import split_name

BOUNDS = ("at_least", "at_most")

OF_PAIRS = ("experiment", "recipe", "dataset")
"""What a claim on certificates may name."""


def claim_findings(config: Mapping) -> Iterator[Finding]:
    """Yield a finding for each mistake in the claims. config: the checked config, with defaults."""
    known = _known_values(config)
    for i, claim in enumerate(config["claims"]):
        path, where = ("claims", i), claim.get("where", {})
        kinds = [name for name in ("verdict", "pairs") if name in claim] + ["bound"] * any(b in claim for b in BOUNDS)
        if len(kinds) != 1:
            yield path, "allowed: at_least, at_most or both; or verdict; or pairs"
        if "pairs" not in claim and not where:
            yield path, "where is missing; allowed: values of columns of tidy.csv that only one row has"
        if "pairs" in claim:
            for key in set(where).difference(OF_PAIRS):
                yield (*path, "where", key), f"has no effect on pairs; allowed: {', '.join(OF_PAIRS)}"
        if claim.get("at_least", 0) > claim.get("at_most", claim.get("at_least", 0)):
            yield (*path, "at_least"), f"found {claim['at_least']}, which is more than at_most"
        for key, values in known.items():
            if key in where and where[key] not in values:
                yield (*path, "where", key), f"found {format_value(where[key])}; allowed: {', '.join(map(str, values))}"


def _known_values(config: Mapping) -> dict[str, list]:
    """Return the values that the experiments have, by column."""
    known: dict[str, dict] = {key: {} for key in (*OF_PAIRS, "epochs", "workers")}
    for name, experiment in config["experiments"].items():
        commands = dict.fromkeys(experiment["commands"])
        own = {"recipe": experiment["recipes"], "dataset": experiment["datasets"] + [DATASET] * bool(commands)}
        own |= {"experiment": [name, split_name(name)[0]], "epochs": experiment["epochs"]}
        for key, values in (own | {"workers": experiment["workers"]}).items():
            known[key] |= dict.fromkeys(values)
        known["recipe"] |= commands
    return {key: list(values) for key, values in known.items()}
