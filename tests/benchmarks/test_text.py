from benchmarks.experiments import load


def test_a_text_pipeline_uses_its_budget_and_is_better_than_chance(quick):
    found = quick("text")
    assert load("text").claims(found)[0].holds
    results = found.set_index(["epsilon", "method"])
    spent = results["spent"].dropna()
    assert len(spent) == 4
    assert (spent / spent.index.get_level_values("epsilon")).between(0.99, 1).all()
    accuracy = results["accuracy"]
    for method in ("private vocabulary", "hashing", "public vocabulary"):
        private = accuracy[10.0, f"{method}, auto"]
        assert accuracy[10.0, "most frequent class"] + 0.1 < private
        assert private <= accuracy[10.0, "no privacy"] + 0.02


def test_a_larger_share_for_the_vocabulary_finds_more_words(quick):
    found = quick("text-choices")
    assert len(load("text-choices").claims(found)) == 1
    words = found.set_index(["max_words", "share"])["words"]
    for max_words in (20, 50):
        few, many = (words[max_words].sort_index().iloc[place] for place in (0, -1))
        # By Zipf's law their number grows as the root of the share, which is six times as large
        assert many >= 2 * few > 0
