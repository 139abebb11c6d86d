"""What a run cost: the energy of an epoch, and money by the prices of the config."""

from collections.abc import Mapping

COSTS = ("cost", "epoch_cost")
"""The columns of money in the table of runs."""


def currency_of(config: Mapping) -> str:
    """The currency of the prices of a config; EUR if they name none, as in config/schema.yaml."""
    currency: str = config.get("prices", {}).get("currency", "EUR")
    return currency


def costs_of(record: Mapping, prices: Mapping | None) -> dict:
    """The columns of the table of runs on costs; None for what was not measured or has no price.

    A run pays for its wall time without the wait for its device and the measurement of its peak: for the CPUs that it
    held, and a GPU run also for one GPU. With a price for energy, a run whose energy was not measured has no cost.

    prices: `prices` of the config, whose keys may be missing; None for none.
    """
    epochs = record["result"]["epochs_trained"]
    joules, workers = record["energy"]["training_joules"], record["run"]["workers"]
    unpaid = sum(record["phases_seconds"][phase] for phase in ("device_wait", "peak"))
    hours = (record["wall_seconds"] - unpaid) / 3600
    amounts = {
        "cpu_hour": len(record["provenance"]["cpus"]) * workers * hours,
        "gpu_hour": workers * hours if record["run"]["device"] == "gpu" else 0.0,
        "kilowatt_hour": None if joules is None else joules / 3.6e6,
    }
    known = prices or {}
    parts = [(known[name], amount) for name, amount in amounts.items() if known.get(name) is not None]
    is_measured = bool(parts) and all(amount is not None for _, amount in parts)
    cost = float(sum(price * (amount or 0.0) for price, amount in parts)) if is_measured else None
    return {
        "epoch_joules": joules / epochs if joules is not None and epochs else None,
        "cost": cost,
        "epoch_cost": cost / epochs if cost is not None and epochs else None,
    }
