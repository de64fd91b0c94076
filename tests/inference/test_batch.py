import numpy as np
import pytest

from sksstruct.inference import (
    batch,
    forward_backward,
    max_product,
    min_cut,
    viterbi,
    viterbi_topk,
)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3])
def test_results_do_not_depend_on_threads(n_jobs):
    rng = np.random.RandomState(0)
    table = rng.normal(size=(4, 4))
    problems = [(rng.normal(size=(rng.randint(1, 9), 4)), table) for _ in range(50)]
    for oracle, options in (
        (viterbi, {}),
        (viterbi_topk, {"k": 3}),
        (forward_backward, {}),
    ):
        found = batch(oracle, problems, n_jobs=n_jobs, **options)
        for problem, results in zip(problems, found, strict=True):
            for a, b in zip(results, oracle(*problem, **options), strict=True):
                np.testing.assert_array_equal(a, b)


def test_other_oracles():
    problems = [(np.eye(2) * k, [(0, 1)], np.eye(2)) for k in range(5)]
    for oracle in (max_product, min_cut):
        found = batch(oracle, problems, n_jobs=2)
        assert [score for _, score in found] == [oracle(*p)[1] for p in problems]


def test_empty_and_bad_problems():
    assert batch(viterbi, []) == []
    problems = [([[0.0, 1.0]], np.eye(2)), ([[0.0]], np.eye(2))]
    with pytest.raises(ValueError, match=r"problems\[1\]: pairwise must have shape"):
        batch(viterbi, problems)
