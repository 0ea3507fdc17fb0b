import pytest

pytest.importorskip("pgserver", reason="there is no wheel of pgserver for this platform")


def test_both_places_of_a_ledger_are_timed(quick):
    results = quick("ledger-postgres").set_index(["place", "what"])
    assert set(results.index) == {
        (place, what)
        for place in ("SQLite", "PostgreSQL")
        for what in ("charge, median", "open", "total", "verify")
    }
    assert (results["seconds"] > 0).all()
    charges = results.xs("charge, median", level="what")
    # Nothing that waits for a disk is quicker than the least that can be asked of it.
    assert (charges["seconds"] > 0.5 * charges["bare"]).all()
