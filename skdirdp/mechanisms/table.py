"""The public description of a table of counts."""

from dataclasses import dataclass, field, replace

from .._validation import check_choice, check_integer, store_real
from ..accounting.worst_case import OF_PERSONS
from .contribution import ContributionBound

#: What is made of a noisy table: the best that can be, or what was drawn, cell by cell.
READINGS = ("best", "plain")


@dataclass(frozen=True)
class CountTable:
    """The public description of a table of counts that is to be released.

    Parameters
    ----------
    n_samples : float
        The total that the table is expected to hold.
    n_categories, n_rows : int
        Its size; each row is normalised over its categories.
    contribution : ContributionBound
        The bound on a record's entries; by default a single count.
    precision : float, default=1.0
        The noise of all tables of a model has one common scale, divided by this.
    min_smoothing : float, default=1.0
        The least smoothing, in counts.
    floor : float, default=0.0
        A public lower bound on every count.
    of_persons : bool, default=False
        Whether the bound is on a person's entries, of all records of that person together.
    reading : {"plain", "best"}, default="plain"
        What will be made of the release: see `skdirdp.postprocessing`. Noise is chosen for it.

    Examples
    --------
    >>> from skdirdp.mechanisms import CountTable, GaussianMechanism
    >>> table = CountTable(n_samples=30_000, n_categories=10, n_rows=2)
    >>> round(GaussianMechanism(sigma=10.0).expected_divergence(table), 6)
    0.000204
    """

    n_samples: float
    n_categories: int
    n_rows: int = 1
    contribution: ContributionBound = field(default_factory=ContributionBound)
    precision: float = 1.0
    min_smoothing: float = 1.0
    floor: float = 0.0
    of_persons: bool = False
    reading: str = "plain"

    def __post_init__(self):
        store_real(self, "n_samples", at_least=0)
        check_integer("n_categories", self.n_categories, at_least=1)
        check_integer("n_rows", self.n_rows, at_least=1)
        store_real(self, "precision", above=0)
        store_real(self, "min_smoothing", at_least=0)
        store_real(self, "floor", at_least=0)
        check_choice("reading", self.reading, READINGS)

    def per_person(self, max_rows: int) -> "CountTable":
        """The same table where persons are protected, who have so many records at most.

        Parameters
        ----------
        max_rows : int
            At least 1.

        Returns
        -------
        CountTable
        """
        return replace(self, contribution=self.contribution.of_rows(max_rows), of_persons=True)

    def relation(self, adjacency: str) -> str:
        """The relation that a release of the table is under: of records, or of persons.

        Parameters
        ----------
        adjacency : {"replace", "add_remove"}

        Returns
        -------
        str
        """
        return OF_PERSONS[adjacency] if self.of_persons else adjacency
