"""Experiment on ledgers: charges and verdicts."""

import pandas as pd

from benchmarks.experiments.ledger import Ledger, charges


def test_charges_are_all_different():
    for kinds in ("Dirichlet", "mixed"):
        made = charges(kinds, 60, 0)
        assert len(set(made)) == 60
    assert len({type(kind) for kind in made}) == 6


def test_charges_are_timed_around_the_limit_and_totals_are_those_of_the_whole(quick):
    results = quick("ledger")
    charged = results[results["what"] == "charges"]
    assert ((charged["admitted"] > 0) & (charged["admitted"] < charged["asked"])).all()
    assert charged["used"].between(0.97, 1).all()
    assert (charged["difference"].abs() < 1e-9).all()
    (search,) = results[results["what"] == "search"].to_dict("records")
    assert search["admitted"] == search["asked"] == 3 * 2 + 1


def test_promises_grow_with_the_ledger_and_are_judged_by_the_worst_case():
    rows = pd.DataFrame(
        {
            "what": ["charges", "charges", "charges", "search"],
            "kinds": ["mixed", "mixed", "mixed", "Dirichlet"],
            "size": [100, 10_000, 100_000, 100],
            "charge": [0.06, 0.04, 0.4, None],
            "cold total": [0.1, 1.0, 19.0, None],
            "warm total": [0.001, 0.051, 0.4, None],
            "repr": [0.001, 0.002, 0.09, None],
            "times": [None, None, None, 1.31],
        }
    )
    held = {claim.statement.split(":")[0]: claim.holds for claim in Ledger().claims(rows)}
    assert list(held.values()) == [False, True, False, True, False]
    assert Ledger().claims(rows)[0].found == "60.0 ms with 100 (mixed)"
    assert Ledger().claims(rows)[4].found == "1.31 times"
    assert [claim.holds for claim in Ledger().claims(rows.assign(times=1.29))][4]
