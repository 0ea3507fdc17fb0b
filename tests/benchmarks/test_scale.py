def test_every_engine_counts_every_row_and_is_measured_beside_its_own_group_by(quick):
    results = quick("scale")
    assert (results["counted"] == results["rows"]).all()
    assert set(results[results["bare"]]["engine"]) == {"DuckDB", "Polars", "Dask, 2 workers"}
    assert (results[["seconds", "processor", "peak"]] > 0).all(axis=None)
