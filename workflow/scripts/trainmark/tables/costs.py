"""What a run cost: the energy of an epoch, and money by the prices of the config."""

from collections.abc import Mapping


def currency_of(config: Mapping) -> str:
    """The currency of the prices of a config; EUR if they name none, as in config/schema.yaml."""
    return str(config.get("prices", {}).get("currency", "EUR"))


def working_seconds(record: Mapping) -> float:
    """The wall time of a run in s, without the wait for its device and the measurement of its peak."""
    return float(record["wall_seconds"] - sum(record["phases_seconds"][phase] for phase in ("device_wait", "peak")))


def costs_of(record: Mapping, prices: Mapping | None) -> dict:
    """The columns of the table of runs on costs; None for what was not measured or has no price.

    A run pays for its `working_seconds`: for the CPUs that it held, and a GPU run also for one GPU. With a price for
    energy, a run whose energy was not measured has no cost.
    prices: those of the config, whose keys may be missing; None for none.
    """
    epochs, workers = record["result"]["epochs_trained"], record["run"]["workers"]
    joules, known = record["energy"]["training_joules"], prices or {}
    hours = working_seconds(record) / 3600
    amounts = {
        "cpu_hour": len(record["sessions"][-1]["cpus"]) * workers * hours,
        "gpu_hour": workers * hours if record["run"]["device"] == "gpu" else 0.0,
        "kilowatt_hour": None if joules is None else joules / 3.6e6,
    }
    priced = {name: amount for name, amount in amounts.items() if known.get(name) is not None}
    is_measured = priced and None not in priced.values()
    cost = float(sum(known[name] * amount for name, amount in priced.items())) if is_measured else None
    of_epoch = [value / epochs if value is not None and epochs else None for value in (joules, cost)]
    return {"cost": cost, "epoch_joules": of_epoch[0], "epoch_cost": of_epoch[1]}
