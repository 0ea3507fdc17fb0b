def test_every_engine_counts_all_rows_and_is_compared_with_its_own_group_by(quick):
    results = quick("scale")
    assert (results["counted"] == results["rows"]).all()
    assert set(results[results["bare"]]["engine"]) == {"DuckDB", "Polars", "Dask, 2 workers"}
    assert (results[["seconds", "processor", "peak"]] > 0).all(axis=None)
