"""The conformance suite of the onnx package on `triune.onnx.backend`, case by case.

    python tests/models/onnx_suite.py [--match WORD] [--list] [--reasons N]

prints passes per category, wrong values, and why the other cases do not run, by count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import tempfile
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from triune import errors


class Outcome(NamedTuple):
    """What became of a case."""

    category: str
    case: str
    kind: str
    """``pass``, ``wrong`` or ``refused``; ``unread`` for a result that the suite has no way to compare, arrays without axes in
    lists; ``crash`` for an error that is not one of Triune's.
    """
    reason: str


def outcomes(match: str = "") -> Iterator[Outcome]:
    """Run every case of the suite whose name has `match` in it."""
    from onnx.backend.test import BackendTest

    from triune.onnx.backend import Backend

    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The suite writes the operands of its light models there.
        os.environ["ONNX_HOME"] = home
        for name, case in BackendTest(Backend, __name__).test_cases.items():
            category = name.removeprefix("OnnxBackend").removesuffix("Test")
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
                method = test.id().rpartition(".")[2]
                if match in method and method.endswith("_cpu"):
                    yield Outcome(category, method, *_outcome(getattr(test, method)))


def _outcome(run: object) -> tuple[str, str]:
    assert callable(run)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run()
    except errors.Error as error:
        return "refused", str(error)
    except AssertionError as error:
        return "wrong", str(error).strip()
    except Exception as error:
        if isinstance(error, TypeError) and "Unable to compare expected type" in str(error):
            return "unread", str(error)
        return "crash", f"{type(error).__name__}: {error}"
    return "pass", ""


def summary(reason: str) -> str:
    """Return a reason without what differs from one case to the next."""
    reason = re.sub(r"node '[^']*'", "node", reason.split("\n")[0])
    reason = re.sub(r"'[^']*'", "'…'", reason)
    return re.sub(r"\d+(×\d+)*", "#", reason)[:150]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--match", default="", help="only cases with this in their name")
    parser.add_argument("--list", action="store_true", help="every case that does not pass, with its reason")
    parser.add_argument("--reasons", type=int, default=40, help="so many reasons (40)")
    options = parser.parse_args()
    results = list(outcomes(options.match))
    kinds = ("pass", "wrong", "refused", "unread", "crash")
    counts = Counter((result.category, result.kind) for result in results)
    print(f"{'':24}" + "".join(f"{kind:>10}" for kind in kinds))
    for category in dict.fromkeys(result.category for result in results):
        print(f"{category:24}" + "".join(f"{counts[category, kind]:10}" for kind in kinds))
    for result in results:
        if result.kind in ("wrong", "crash") or (options.list and result.kind != "pass"):
            print(f"{result.kind} {result.case}: {' '.join(result.reason.split())[:300]}")
    reasons = Counter(summary(result.reason) for result in results if result.kind == "refused")
    for reason, count in reasons.most_common(options.reasons):
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
