"""What goes to another process: what an object was made from, and no open model or file."""

import pickle
from functools import cached_property

from xnmt_bench.lazy import Lazy


class Opened(Lazy):
    """Counts how often it was opened."""

    def __init__(self, path):
        self.path, self.times = path, 0

    @cached_property
    def model(self):
        self.times += 1
        return lambda: self.path  # a lambda cannot be pickled


def test_an_open_model_stays_in_its_process():
    opened = Opened("a")
    assert opened.model() == opened.model() == "a" and opened.times == 1
    copied = pickle.loads(pickle.dumps(opened))
    assert "model" not in vars(copied)
    assert copied.model() == "a" and copied.times == 2


def test_a_copied_system_takes_the_open_model_of_its_like(transformer):
    """As in a worker, whose stages each bring a system of their own."""

    def copy(**corpus):
        return pickle.loads(pickle.dumps(transformer.changed({"corpus": corpus}).system))

    model = copy().model
    again = copy()
    assert vars(again)["model"] is model
    assert "model" not in vars(copy(max_length=77))
