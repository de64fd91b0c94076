"""The process that runs toulbar2: a script that needs numpy and pytoulbar2 only.

toulbar2 keeps global state, prints, and does not return to Python while it searches:
toulbar2 has a process of its own. After SIGINT, toulbar2 returns its best labeling and
bound.
"""

import ctypes
import json
import signal
import sys

import numpy as np


def end_with_parent():
    """Ask Linux to kill this process when its parent ends.

    A parent that is killed cannot end its child, and toulbar2 does not return to Python
    while it searches. Linux sends the signal at the end of the thread that began this
    process, which waits for the answer.
    """
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(source, target):
    """Solve the problem in a file of arrays; write the answer to another, as JSON."""
    import pytoulbar2

    with np.load(source, allow_pickle=False) as problem:
        sizes, top, seed = problem["sizes"], int(problem["top"]), int(problem["seed"])
        first, scopes = problem["first"].tolist(), problem["scopes"].tolist()
        begin, costs = problem["begin"].tolist(), problem["costs"]
    model = pytoulbar2.CFN(ubinit=float(top), resolution=0, seed=seed, verbose=-1)
    for v, size in enumerate(sizes.tolist()):
        model.AddVariable(f"x{v}", range(size))
    for f in range(len(first) - 1):
        scope = scopes[first[f] : first[f + 1]]
        model.AddFunction(scope, costs[begin[f] : begin[f + 1]].tolist())
    # The parent keeps the time limit. toulbar2 reacts to SIGINT only if it has a limit.
    found = model.Solve(timeLimit=10**8)
    answer = {
        "labeling": None if found is None else [int(x) for x in found[0]],
        "cost": None if found is None else found[1],
        "bound": model.GetDDualBound(),
    }
    with open(target, "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
