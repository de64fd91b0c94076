"""Run campaigns for a while: ``python -m tests.fuzz --seconds 60 states readers``."""

import argparse
import importlib
import sys
import time

from tests.fuzz._forked import main_loop

NAMES = (
    "estimators", "oracles", "readers", "states", "lives", "graphs", "proofs", "packed",
    "saved",
)  # fmt: skip


def load(name):
    """Strategy and check of a campaign."""
    module = importlib.import_module(f"tests.fuzz.{name}")
    return module.cases, module.check


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaigns", nargs="*", default=NAMES, metavar="campaign",
                        help=f"some of {', '.join(NAMES)}; all by default")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them")
    parser.add_argument(
        "--cases", type=int, default=200, help="of a campaign in a turn"
    )
    parser.add_argument("--seed", type=int, help="default: from the clock")
    args = parser.parse_args()
    number = int(time.time()) if args.seed is None else args.seed
    print(f"first seed {number}")
    campaigns = {name: load(name) for name in args.campaigns}
    sys.exit(main_loop(campaigns, args.seconds, number, args.cases) > 0)
