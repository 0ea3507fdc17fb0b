"""``skdirdp audit``: check the claims of the estimators on this machine."""

import json
import time
from typing import Any

from .ledger import add_command, real_number, whole_number
from .terminal import EXIT_ERROR, EXIT_OK


def add_to(commands: Any) -> None:
    parser = add_command(commands, "audit", "attack the estimators, and compare with their claims")
    about = "an estimator, such as DirichletNB (default: all of them)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=about)
    parser.add_argument("--epsilon", type=real_number, default=4.0, help="budget (default: 4)")
    parser.add_argument("--delta", type=real_number, default=1e-5, help="delta (default: 1e-5)")
    about = "the epsilon that is claimed, to see that a wrong claim is found (default: the budget)"
    parser.add_argument("--claim", type=real_number, help=about)
    about = "relation of the neighbours (default: replace)"
    relations = ("replace", "add_remove")
    parser.add_argument("--adjacency", choices=relations, default="replace", help=about)
    parser.add_argument("--mechanism", help="mechanism of the estimator (default: its own)")
    about = "number of runs on each of two data sets (default: 4000)"
    parser.add_argument("--runs", type=whole_number, default=4000, metavar="N", help=about)
    parser.add_argument("--confidence", type=real_number, default=0.99, help="default: 0.99")
    about = "fit in every run, instead of drawing the releases of one fit many times"
    parser.add_argument("--fits", action="store_true", help=about)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=_audit)


def _audit(options: Any) -> int:
    from ..audit import audit, case_names, predefined_case

    given = {name: getattr(options, name) for name in ("delta", "adjacency", "mechanism")}
    known = case_names()
    names = options.names or [
        # A posterior has one relation, and mechanisms of its own.
        name
        for name in known
        if name != "PrivateDirichletPosterior" or options.adjacency == "replace"
    ]
    results, wrong = [], False
    for name in names:
        case = predefined_case(name, epsilon=options.epsilon, **given)
        claim = None
        if options.claim is not None:
            stated = predefined_case(name, epsilon=options.claim, **given)
            claim = stated.estimator.fit(*stated.first).privacy_
        start = time.perf_counter()
        settings = {"n_runs": options.runs, "confidence": options.confidence}
        result = audit(case, claim=claim, batch=not options.fits, **settings)
        seconds = time.perf_counter() - start
        wrong = wrong or result.violated
        facts = {"estimator": name, "violated": result.violated, "seconds": round(seconds, 1)}
        fields = ("epsilon_lower", "epsilon", "delta", "confidence", "rates", "n_runs")
        results.append({**facts, **{field: getattr(result, field) for field in fields}})
        if not options.json:
            print(f"{name}: {result} [{seconds:.0f} s]", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    return EXIT_ERROR if wrong else EXIT_OK
