"""The experiments by name."""

from importlib import import_module

from ..experiment import Experiment

#: Each name, with the module and the class behind it. Their order is that of the report.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "naive-bayes": ("naive_bayes", "NaiveBayes"),
    "naive-bayes-fresh": ("naive_bayes", "FreshNaiveBayes"),
    "naive-bayes-further": ("naive_bayes", "FurtherNaiveBayes"),
    "naive-bayes-unseen": ("naive_bayes", "UnseenNaiveBayes"),
    "bayes-net": ("bayes_net", "BayesNet"),
    "bayes-net-fresh": ("bayes_net", "FreshBayesNet"),
    "postprocessing": ("postprocessing", "PostProcessing"),
    "synthesis": ("synthesis", "Synthesis"),
    "synthesis-target": ("synthesis_target", "SynthesisTarget"),
    "synthesis-size": ("synthesis_size", "SynthesisSize"),
    "synthesis-inference": ("synthesis_inference", "SynthesisInference"),
    "synthesis-numbers": ("synthesis_numbers", "SynthesisNumbers"),
    "crosstab": ("crosstab", "Crosstab"),
    "inference-coverage": ("inference_coverage", "InferenceCoverage"),
    "inference-association": ("inference_coverage", "InferenceAssociation"),
    "inference-fresh": ("inference_further", "InferenceFresh"),
    "inference-tests": ("inference_further", "InferenceTests"),
    "inference-further": ("inference_further", "InferenceFurther"),
    "inference-widths": ("inference_widths", "InferenceWidths"),
    "inference-power": ("inference_coverage", "InferencePower"),
    "mechanism-choice": ("mechanism_choice", "MechanismChoice"),
    "renyi-claims": ("privacy", "RenyiClaims"),
    "kl-equal-claim": ("privacy", "KLEqualClaim"),
    "claimed-epsilon": ("claimed_epsilon", "ClaimedEpsilon"),
    "tcdp-claims": ("tcdp", "TcdpClaims"),
    "histogram-error": ("histograms", "HistogramError"),
    "histogram-posterior": ("histograms", "HistogramPosterior"),
    "histogram-quantiles": ("histograms", "HistogramQuantiles"),
    "posterior-distances": ("posteriors", "PosteriorDistances"),
    "posterior-errors": ("posteriors", "PosteriorErrors"),
    "posterior-priors": ("posteriors", "PosteriorPriors"),
    "posterior-losses": ("posterior_losses", "PosteriorLosses"),
    "simplex-claims": ("simplex", "SimplexClaims"),
    "simplex-outputs": ("simplex", "SimplexOutputs"),
    "end-to-end": ("end_to_end", "EndToEnd"),
    "table-classifier": ("table_classifier", "TableClassifier"),
    "table-classifier-confirmation": ("table_classifier", "TableClassifierConfirmation"),
    "table-classifier-cost": ("table_classifier_cost", "TableClassifierCost"),
    "pipeline-split": ("pipeline_split", "PipelineSplit"),
    "filters": ("filters", "Filters"),
    "text": ("text", "Text"),
    "text-choices": ("text", "TextChoices"),
    "audit": ("audit", "Audit"),
    "peer-accountant": ("peer_accountant", "PeerAccountant"),
    "ledger-postgres": ("ledger_postgres", "LedgerPostgres"),
    "federated": ("federated", "Federated"),
    "selection": ("selection", "Selection"),
    "selection-worth": ("selection", "SelectionWorth"),
    "speed": ("speed", "Speed"),
    "memory": ("memory", "Memory"),
    "scaling": ("scaling", "Scaling"),
    "scale": ("scale", "Scale"),
    "sampling": ("sampling", "Sampling"),
    "sampling-fits": ("sampling_fits", "SamplingFits"),
    "ledger": ("ledger", "Ledger"),
}


def load(name: str) -> Experiment:
    """The experiment of that name; only its own module is imported."""
    module, kind = EXPERIMENTS[name]
    return getattr(import_module(f".{module}", __name__), kind)()
