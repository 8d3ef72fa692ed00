"""Graph learning on privately released data: guarantees that hold, and the graph from the release alone.

Public names load on first use, so that ``import privglasso`` is quick.
"""

import importlib

__version__ = "0.1.0"

# module → the names it offers at the top level, in the order of the book
_PUBLIC = {
    "settings": ["setting", "SettingsError"],
    "validation": ["InputError"],
    "kernels": [],
    "plots": ["use_theme", "plot_graph", "plot_precision", "plot_roc", "plot_tradeoff"],
    "metrics": ["auc", "auc_by_magnitude", "auc_by_path_entry", "confusion", "f1_score", "partial_correlations",
                "relative_error", "roc_curve_path", "snr_db", "support"],
    "synthetic": ["Dataset", "chain_precision", "example_table", "random_sparse_precision", "sample_gaussian",
                  "tridiagonal_precision"],
    "datasets": ["DataError", "data_overview", "load_chickenpox", "load_congress", "load_fmri", "load_grid11",
                 "load_grid115", "load_ionosphere", "load_movielens", "load_msdl", "load_sachs", "load_soil",
                 "log10_scale"],
    "covariance": ["CovarianceError", "SamplingError", "noise_corrected_covariance", "sample_covariance"],
    "runner": ["StaleResults", "Study", "StudyError", "read_results", "register_study", "reproduce"],
    "gdp": ["compose_gdp", "delta_gdp", "epsilon_gdp", "mu_gdp", "tradeoff_gdp"],
    "discrete_gaussian": [],
    "release": ["DiscreteGaussianMechanism", "GaussianMechanism", "Guarantee", "NoGuarantee", "TableRelease"],
    "claims": ["Claim", "claims_table"],
    "covariance_release": ["CovarianceMechanism", "CovarianceRelease", "LocalRelease"],
    "synthetic_data": ["SyntheticDataMechanism", "SyntheticRelease"],
    "files": ["ReleaseError", "read_release"],
    "accounting": ["Budget", "BudgetBook", "BudgetError", "BudgetFileError", "PrivacyLoss", "delta_zcdp",
                   "epsilon_zcdp", "privacy_losses"],
    "audit": ["AuditResult", "audit_draws", "float_statistic", "likelihood_statistic"],
    "planning": ["epsilon_needed", "plan", "plan_over", "plot_plan", "records_needed", "resolution"],
    "audit_table": ["plot_audit"],
    "densification": ["noisy_precision"],
    "feasibility": ["ConvergenceError", "InfeasibleError", "min_feasible_alpha", "nearest_psd"],
    "textbook": [],
    "descent": [],
    "solvers": ["GraphicalLassoResult", "dual_gap", "graphical_lasso", "graphical_lasso_path"],
    "estimators": ["PrivateGraphicalLasso", "PrivateGraphicalLassoCV", "adaptive_weights"],
    "selection": ["GraphFitError", "PrivateGraphicalLassoEBIC", "PrivateGraphicalLassoSimultaneous",
                  "PrivateGraphicalLassoStable", "effective_rows", "simultaneous_alpha"],
    "baselines": ["NeighborhoodSelection", "SCIO", "WishartPrior", "neighborhood_path", "scio_path", "wishart_path"],
    "private_precision": ["DPGraphicalLasso", "DPRidgePrecision", "ridge_precision"],
    "private_covariance": ["DPThresholding", "LDPThresholding", "LocalMechanism"],
    "filter_divergence": ["GaussianPair", "SupportError", "delta_between", "epsilon_between", "gaussian_pair",
                          "loss_tail", "renyi_divergence"],
    "graph_filter": ["Excitation", "GraphError", "adjacency_shift", "ar1_covariance", "diffusion_filter",
                     "gso_epsilon", "gso_epsilon_bound", "gso_pair", "gso_renyi", "gso_renyi_bound",
                     "laplacian_shift", "polynomial_filter", "power_flow_filter"],
    "experiments": ["snr_to_sigma"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name):
    if name in _PUBLIC:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_PUBLIC, *_HOME})
