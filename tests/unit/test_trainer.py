"""How a trainer is written and named."""

from itertools import product

import pytest

from trainmark.errors import ConfigError
from trainmark.plan.run import Run
from trainmark.trainer import LOOPS, Trainer

FRAMEWORKS = ["chainer", "keras-jax", "on", "tuned", "cpu", "a-framework-on", "x-gpu-tuned", "w2"]

TRAINERS = [Trainer(*parts) for parts in product(FRAMEWORKS, ["cpu", "gpu"], LOOPS, [1, 2, 16])]


def test_what_is_written_and_the_name_say_which_trainer_it_is():
    for write, read in ((str, Trainer.parse), (lambda trainer: trainer.name, Trainer.named)):
        texts = [write(trainer) for trainer in TRAINERS]
        assert [read(text) for text in texts] == TRAINERS
        assert len(set(texts)) == len(TRAINERS)


@pytest.mark.parametrize(
    ("trainer", "written", "name"),
    [
        (Trainer("keras-jax", "cpu"), "keras-jax-cpu", "keras-jax on cpu"),
        (Trainer("chainer", "gpu", "tuned"), "chainer-gpu-tuned", "chainer tuned on gpu"),
        (Trainer("chainer", "gpu", "tuned", 4), "chainer-gpu-tuned-w4", "chainer tuned on gpu with 4 workers"),
    ],
)
def test_the_usual_parts_are_left_out(trainer, written, name):
    assert (f"{trainer}", trainer.name) == (written, name)


@pytest.mark.parametrize("text", ["chainer", "chainer-tpu", "-cpu", "chainer-cpu-stock", "chainer-cpu-w", "a/b-cpu"])
def test_what_is_no_trainer_is_refused(text):
    with pytest.raises(ConfigError, match=f"^found {text}; allowed: .*chainer-cpu or chainer-gpu-tuned$"):
        Trainer.parse(text)


def test_a_run_is_found_again_by_its_values():
    for trainer in TRAINERS:
        run = Run("e", "r", "d", trainer, 10, 2)
        assert Run.of(run.values) == run
        assert Trainer.of(run.values) == trainer
