import pytest


@pytest.mark.slow
def test_planted_errors_are_found_and_true_claims_are_not_refuted(quick):
    results = quick("audit")
    ours = results[results["library"] == "skdirdp"]
    true, planted = (ours[ours["kind"] == kind] for kind in ("true claim", "noise for 1.5 ε"))
    assert len(true) == len(planted) > 0
    assert not true["violated"].astype(bool).any()
    assert planted["violated"].astype(bool).all()
    assert ours["alarms"].sum() == 0
