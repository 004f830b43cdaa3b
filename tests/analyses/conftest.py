"""Numbers of sentences that are not equally hard."""

import numpy as np
import pytest


@pytest.fixture
def sentence_log_p():
    """Log-likelihoods of 200 sentences, one decision each, in nats."""
    return -5 - np.random.default_rng(0).gamma(2.0, 1.0, 200)
