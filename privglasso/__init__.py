"""Graph learning on privately released data: guarantees that hold, and the graph from the release alone.

The names below are those a user types; they load on first use, so that ``import privglasso`` is quick. All else is
imported from its package: ``privacy``, ``publish``, ``recover``, ``networks``, ``desk``, ``data_sets``,
``papers``, ``experiments``.
"""

import importlib

__version__ = "0.1.0"

# module → the names it offers at the top level, in the order in which a user meets them
_PUBLIC = {
    "privacy.guarantee": ["Guarantee"],
    "privacy.budget": ["Budget", "BudgetError", "ChargedError"],
    "privacy.audit": ["audit"],
    "publish.table": ["DiscreteGaussianMechanism", "GaussianMechanism", "TableRelease"],
    "publish.covariance": ["CovarianceMechanism", "CovarianceRelease"],
    "publish.sphere": ["Ball", "Sphere"],
    "publish.limit": ["noise_over_limit"],
    "publish.whitening": ["WhitenedCovarianceMechanism"],
    "publish.synthetic": ["SyntheticDataMechanism", "SyntheticRelease"],
    "publish.copula": ["CopulaMechanism"],
    "publish.local": ["LocalMechanism"],
    "publish.bounds_check": ["BoundsCheck"],
    "publish.ranks": ["KendallMechanism"],
    "publish.quadrants": ["QuadrantMechanism"],
    "publish.screened_weights": ["ScreenedGraphMechanism"],
    "publish.tree": ["ThresholdedGraphMechanism", "TreeMechanism"],
    "publish.files": ["read_release"],
    "publish.sources": ["read_table"],
    "publish.schema": ["Schema"],
    "publish.parquet": ["ReleaseError"],
    "publish.noise_correction": ["CovarianceError", "noise_corrected_covariance"],
    "recover.planning": ["plan", "plot_plan"],
    "recover.recommendation": ["recommend"],
    "desk.publication": ["Publication"],
    "recover.estimators": ["CV", "PrivateGraphicalLasso"],
    "recover.selection": ["EBIC", "Simultaneous", "Stable"],
    "recover.false_discoveries": ["FDR"],
    "recover.baselines": ["NeighborhoodSelection", "SCIO", "WishartPrior"],
    "papers.private_precision": ["DPGraphicalLasso", "DPRidgePrecision"],
    "papers.thresholding": ["DPThresholding", "LDPThresholding"],
    "recover.graphical_lasso": ["graphical_lasso", "graphical_lasso_path"],
    "recover.feasibility": [
        "ConvergenceError",
        "InfeasibleError",
        "min_feasible_alpha",
    ],
    "recover.metrics": ["auc", "compare", "confusion", "roc_curve_path"],
    "base.graphs": ["partial_correlations", "support"],
    "data_sets.dataset": ["DataError"],
    "data_sets.synthetic": ["example_table"],
    "data_sets.sachs": ["load_sachs"],
    "data_sets.chickenpox": ["load_chickenpox"],
    "data_sets.soil": ["load_soil"],
    "data_sets.congress": ["load_congress"],
    "data_sets.ionosphere": ["load_ionosphere"],
    "data_sets.fmri": ["load_fmri"],
    "data_sets.movielens": ["load_movielens"],
    "data_sets.grids": ["load_grid11", "load_grid115"],
    "data_sets.loans": ["load_loans"],
    "data_sets.flights": ["load_flights"],
    "data_sets.overview": ["data_overview"],
    "base.plots": [
        "plot_graph",
        "plot_precision",
        "plot_roc",
        "plot_tradeoff",
        "use_theme",
    ],
    "base.validation": ["InputError"],
    "papers.claims": ["claims_table"],
    "experiments.noise_levels": ["snr_to_sigma"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name):
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, "__version__"])


def main():
    """The command line. Ctrl-C outside of a command, when nothing is read or written,
    ends in one sentence."""
    import gc
    import os
    import signal

    gc.set_threshold(100_000)  # what is loaded stays: to look through it takes a tenth

    def stop(number, frame):
        os.write(2, b"privglasso: stopped by Ctrl-C\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)
    app = importlib.import_module("privglasso.cli.commands").app
    signal.signal(signal.SIGINT, before)
    try:
        app()
    except KeyboardInterrupt:  # on the way into a command, or out of one
        stop(None, None)
