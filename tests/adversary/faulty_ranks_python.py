"""Stands before `python` on the PATH of a run: train.py has the fault FAULT in its adapter, certificates have none.

Faults of ranks are in all ranks of a run; they leave counts as they should be.
"""

import os
import runpy
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

FROM_UPDATE = 40


def from_update_40(train_epoch_of):
    """A fault in `train_epoch` of all epochs that begin after so many updates."""

    def inject(adapter):
        true, updates = adapter.train_epoch, 0
        faulty = train_epoch_of(adapter, true)

        def train_epoch(feed):
            nonlocal updates
            updates += feed.steps
            return (true if updates - feed.steps < FROM_UPDATE else faulty)(feed)

        adapter.train_epoch = train_epoch

    return inject


def without_exchange(adapter, layers=None):
    """Let each rank update by its own gradients: all of them, or those of the last layers alone."""
    if adapter.framework == "torch":
        parallel = adapter._forward
        if layers is None:
            adapter._forward = lambda inputs: adapter._network(inputs)
            return partial(setattr, adapter, "_forward", parallel)
    communicator = adapter._communicator
    true = communicator.multi_node_mean_grad

    def own(model, *arguments, **options):
        parameters = sorted(model.namedparams())
        kept = {name: parameter.grad.copy() for name, parameter in parameters}
        if layers:
            true(model, *arguments, **options)
        for name, parameter in parameters[-(layers or len(parameters)) :]:
            parameter.grad[...] = kept[name]

    communicator.multi_node_mean_grad = own
    return partial(setattr, communicator, "multi_node_mean_grad", true)


def no_exchange(adapter, true, layers=None):
    def faulty(feed):
        restore = without_exchange(adapter, layers)
        try:
            return true(feed)
        finally:
            restore()

    return faulty


def weights_averaged(adapter, true):
    """No exchange within an epoch, and the mean of all weights after it."""

    def faulty(feed):
        losses = no_exchange(adapter, true)(feed)
        of_ranks = adapter.ranks.all_values(adapter.weights())
        adapter.set_weights({name: np.mean([one[name] for one in of_ranks], axis=0) for name in of_ranks[0]})
        return losses

    return faulty


def another_rate_on_rank_1(adapter, true):
    rates = (("learning_rate", 1.001e-3),)
    return lambda feed: true(replace(feed, rates=rates) if adapter.ranks.rank else feed)


def other_share(change):
    """Rank 1 trains another share than its own, with masks of its own seed."""

    def inject(adapter):
        share = adapter._share

        def faulty(feed):
            own = share(feed)
            return replace(change(own, feed.shard(0, 2)), dropout_seed=own.dropout_seed) if adapter.ranks.rank else own

        adapter._share = faulty

    return inject


def of_rank_0(own, first):
    """Rank 0's share, as many samples as its own has."""
    sizes = own.batch_sizes()
    return replace(
        own,
        order=np.concatenate([first.order[place][:size] for place, size in zip(first.places(), sizes, strict=True)]),
    )


def a_batch_late(own, first):
    return replace(own, order=np.roll(own.order, own.batch_size))


def half_twice(own, first):
    batches = [own.order[place] for place in own.places()]
    return replace(
        own, order=np.concatenate([np.resize(batch[: -(-len(batch) // 2)], len(batch)) for batch in batches])
    )


def masks_of_rank_0(adapter):
    share = adapter._share
    adapter._share = lambda feed: replace(share(feed), dropout_seed=feed.shard(0, 2).dropout_seed)


def no_barrier(adapter):
    """Rank 1 comes late, and the other one begins without it."""
    type(adapter.ranks).wait = lambda ranks: None
    true = adapter.synchronize

    def late():
        time.sleep(0.05 * adapter.ranks.rank)
        true()

    adapter.synchronize = late


# --- the clock, of one worker ---------------------------------------------------------------------------------------


def after_evaluation(act):
    def inject(adapter):
        predict = adapter.predict

        def faulty(split):
            logits = predict(split)
            act()
            return logits

        adapter.predict = faulty

    return inject


def one_thread_of_torch():
    import torch

    torch.set_num_threads(1)


def one_thread_of_blas():
    import threadpoolctl

    threadpoolctl.threadpool_limits(1)


def one_cpu():
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), [min(os.sched_getaffinity(0))])


FAULTS = {
    "nothing": lambda adapter: None,
    "no exchange from update 40": from_update_40(no_exchange),
    "no exchange of the last array from update 40": from_update_40(partial(no_exchange, layers=1)),
    "another rate on rank 1 from update 40": from_update_40(another_rate_on_rank_1),
    "weights averaged from update 40": from_update_40(weights_averaged),
    "rank 0's share": other_share(of_rank_0),
    "a batch late": other_share(a_batch_late),
    "half of the share twice": other_share(half_twice),
    "rank 0's masks": masks_of_rank_0,
    "no barrier": no_barrier,
    "one thread of torch": after_evaluation(one_thread_of_torch),
    "one thread of BLAS": after_evaluation(one_thread_of_blas),
    "one CPU": after_evaluation(one_cpu),
}


def arm(fault):
    """Inject a fault into the first adapter, which is the run's; one for a worker alone has none."""
    from trainmark.frameworks import registry

    create_adapter, created = registry.create_adapter, []

    def faulty(*arguments, **options):
        adapter = create_adapter(*arguments, **options)
        if not created:
            fault(adapter)
        created.append(adapter)
        return adapter

    registry.create_adapter = faulty


def main():
    """Run the command as python would; train.py with the fault."""
    arguments, fault = sys.argv[1:], os.environ.get("FAULT", "nothing")
    if not arguments or Path(arguments[0]).name != "train.py" or fault == "nothing":
        os.execv(sys.executable, [sys.executable, *arguments])
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent.resolve())
    arm(FAULTS[fault])
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
