"""Many problems, shared among threads."""

from sksstruct.utils.parallel import run_in_chunks


def batch(oracle, problems, *, n_jobs=None, **options):
    """Results of an oracle on many problems.

    Parameters
    ----------
    oracle : callable
        An oracle of this module. All of them search without the GIL except `bmmf`,
        `branch_and_bound` and `Exhaustive`, which call Python functions.
    problems : list of tuple
        Positional arguments of each call.
    n_jobs : int, default=None
        Threads; the results are the same for any number.
    **options : dict
        Keyword arguments of every call.

    Returns
    -------
    results : list
        What the oracle returned for each problem.

    Raises
    ------
    ValueError
        If the oracle refuses a problem; the error gives its number.

    See Also
    --------
    sksstruct.ChainCRF : Decodes all its sequences in one compiled loop.

    Examples
    --------
    >>> from sksstruct.inference import batch, viterbi
    >>> table = [[1, 0], [0, 1]]
    >>> problems = [([[1, 0], [0, 3]], table), ([[0, 3]], table)]
    >>> [labeling.tolist() for labeling, _ in batch(viterbi, problems, n_jobs=2)]
    [[0, 1], [1]]
    """
    problems = list(problems)
    results = [None] * len(problems)

    def run(start, stop):
        for i in range(start, stop):
            # threads write to places of their own: the order is that of the problems
            try:
                results[i] = oracle(*problems[i], **options)
            except ValueError as error:
                raise ValueError(f"problems[{i}]: {error}") from error

    if problems:
        run_in_chunks(run, len(problems), n_jobs)
    return results
