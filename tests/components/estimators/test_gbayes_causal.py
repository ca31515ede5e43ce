"""The causal estimator: closed forms, invariances, and what it refuses."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from raycipe.components.data import _dgps as dgps
from raycipe.framework.registry import make
from raycipe.framework.streams import numpy_generator


@cache
def world(name: str, n: int = 400, seed: int = 0) -> dict[str, Any]:
    return dgps.draw(name, n, numpy_generator(seed, "causal_dgp"))


def fitted(data: dict[str, Any], y: Any = None, **arguments: Any) -> Any:
    roles = {name: values for name, values in data.items() if name not in ("x", "y")}
    folds = {"folds": np.arange(len(data["y"])) % 5}
    outcome = data["y"] if y is None else y
    return make("estimators/gbayes_causal", **arguments).fit(data["x"], outcome, **roles, **folds)


def test_a_flat_prior_gives_the_doubly_robust_estimate() -> None:
    found = fitted(world("dgp2"), prior={"type": "gaussian", "sd": 1e6})
    fit = found.fits_[0]
    a, y, (e, m0, m1) = fit.sample.treatment, fit.sample.y, (fit.eta[name] for name in ("e", "m0", "m1"))
    phi = m1 - m0 + a * (y - m1) / e - (1 - a) * (y - m0) / (1 - e)
    seen = found.summary()
    assert seen["estimate"] == pytest.approx(phi.mean(), abs=1e-9)
    assert seen["sd"] == pytest.approx(phi.std(ddof=1) / np.sqrt(len(phi)), rel=1e-9)


def test_nuisances_come_from_the_other_folds() -> None:
    """A row's own outcome must not move its own nuisances."""
    data = world("dgp1")
    moved = data["y"].copy()
    moved[::5] += 100.0  # all of fold 0
    before, after = (fitted(data, y).fits_[0].eta["m1"] for y in (data["y"], moved))
    np.testing.assert_array_equal(before[::5], after[::5])
    assert not np.allclose(before[1::5], after[1::5])


@pytest.mark.parametrize("estimand, mirrored", [("ate", "ate"), ("att", "atc"), ("ato", "ato")])
def test_swapping_the_arms_negates_the_effect(estimand: str, mirrored: str) -> None:
    data = world("dgp2")
    loss = "r" if estimand == "ato" else "dr"
    first = fitted(data, estimand=estimand, loss=loss).summary()["estimate"]
    swapped = {**data, "treatment": 1 - data["treatment"]}
    assert fitted(swapped, estimand=mirrored, loss=loss).summary()["estimate"] == pytest.approx(-first, abs=1e-8)


def test_swapping_the_instrument_leaves_the_effect_on_compliers() -> None:
    data = world("iv1")
    first = fitted(data, estimand="late").summary()
    second = fitted({**data, "instrument": 1 - data["instrument"]}, estimand="late").summary()
    assert second["estimate"] == pytest.approx(first["estimate"], abs=1e-8)
    assert second["sd"] == pytest.approx(first["sd"], abs=1e-8)


def test_scaling_and_shifting_the_outcome() -> None:
    """Y -> -3 Y + 7, with first-stage models that have a free intercept."""
    data = world("dgp2")
    ridge = {"type": "crossfit", "outcome": {"type": "sklearn", "name": "Ridge"}}
    first = fitted(data, nuisance=ridge).summary()
    second = fitted(data, -3 * data["y"] + 7, nuisance=ridge).summary()
    assert second["estimate"] == pytest.approx(-3 * first["estimate"], rel=1e-8)
    assert second["sd"] == pytest.approx(3 * first["sd"], rel=1e-8)


def test_the_order_of_rows_changes_nothing_but_rounding() -> None:
    data = world("dgp4")
    order = np.random.default_rng(0).permutation(400)
    folds = np.arange(400) % 5
    roles = {"treatment": data["treatment"], "folds": folds}
    first = make("estimators/gbayes_causal").fit(data["x"], data["y"], **roles)
    second = make("estimators/gbayes_causal").fit(
        data["x"][order], data["y"][order], **{name: values[order] for name, values in roles.items()}
    )
    for name in ("estimate", "sd", "omega"):
        assert second.summary()[name] == pytest.approx(first.summary()[name], rel=1e-9)


def test_a_group_is_held_out_whole_and_counts_once() -> None:
    """Every row doubled, each pair a group: the interval stays what it was, without groups it shrinks."""
    data = world("dgp1")
    twice = {name: np.repeat(values, 2, axis=0) for name, values in data.items()}
    groups = np.repeat(np.arange(400), 2)
    roles = {name: values for name, values in twice.items() if name not in ("x", "y")}
    clustered = make("estimators/gbayes_causal").fit(twice["x"], twice["y"], groups=groups, **roles)
    assert all(len(set(clustered.fits_[0].folds[groups == group])) == 1 for group in range(400))
    single = fitted(data).summary()["sd"]
    assert clustered.summary()["sd"] == pytest.approx(single, rel=0.1)


def test_weights_stand_for_repeated_rows() -> None:
    data = world("dgp1", 200)
    weights = np.where(np.arange(200) < 100, 2.0, 1.0)
    oracle = {"nuisance": "oracle", "prior": {"type": "gaussian", "sd": 1e6}}
    weighted = make("estimators/gbayes_causal", **oracle).fit(
        data["x"], data["y"], treatment=data["treatment"], truth=data["truth"], sample_weight=weights
    )
    rows = np.concatenate([np.arange(200), np.arange(100)])
    repeated = {name: values[rows] for name, values in data.items()}
    assert weighted.summary()["estimate"] == pytest.approx(fitted(repeated, **oracle).summary()["estimate"], abs=1e-9)


def test_intervals_of_a_function_hold_its_truth_on_average() -> None:
    data, fresh = world("dgp2", 1000), world("dgp2", 300, 1)
    found = fitted(data, estimand="cate", loss="r", prior={"type": "gp", "inducing": 20})
    low, high = found.interval(fresh["x"])
    truth = fresh["truth"][:, 2] - fresh["truth"][:, 1]
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    lower, upper = found.band(fresh["x"])
    assert (lower <= low).all() and (upper >= high).all()
    draws = found.sample(fresh["x"], 500)
    assert draws.shape == (500, 300)
    np.testing.assert_allclose(draws.mean(axis=0), found.predict(fresh["x"]), atol=5 * (high - low).max() / 500**0.5)


def test_rounds_of_cross_fitting_are_mixed_or_joined_by_their_median() -> None:
    data = world("dgp4")
    roles = {"treatment": data["treatment"]}
    single = make("estimators/gbayes_causal").fit(data["x"], data["y"], **roles)
    mixed = make("estimators/gbayes_causal", repeats=3).fit(data["x"], data["y"], **roles)
    median = make("estimators/gbayes_causal", repeats=3, combine="median").fit(data["x"], data["y"], **roles)
    means = [float(fit.solution.mean[0]) for fit in mixed.fits_]
    assert means[0] == single.summary()["estimate"] and len(set(means)) == 3
    assert mixed.summary()["estimate"] == pytest.approx(np.mean(means))
    assert median.summary()["estimate"] == pytest.approx(np.median(means))


def test_no_overlap_is_told_first_and_refused_if_strict() -> None:
    data = world("dgp6", 1000)
    found = fitted(data)
    assert found.summary()["overlap"] == 0
    assert found.evidence().text["report"].startswith("NOTE  there is no overlap to speak of")
    with pytest.raises(ValueError, match="strict: there is no overlap"):
        fitted(data, strict=True)
    assert len(fitted(data, trim="drop", loss={"type": "dr", "clip": 0.05}).fits_[0].sample) < 1000


def test_a_weak_instrument_gets_an_anderson_rubin_set() -> None:
    data = dict(world("iv1"))
    data["instrument"] = np.random.default_rng(0).integers(0, 2, 400).astype(float)
    notes = fitted(data, estimand="late").notes_
    assert any("the instrument is weak" in note and "Anderson-Rubin set" in note for note in notes)


def bad(**changes: Any) -> dict[str, Any]:
    data = dict(world("dgp1", 60))
    data.update(changes)
    return data


N = 60
HALF = (np.arange(N) % 2).astype(float)
HOLE = np.where(np.arange(N) == 7, np.nan, 1.0)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"x": HOLE[:, None] * np.ones((N, 2))}, r"X: 2 values are missing.*columns \[0, 1\], first rows 7"),
        ({"y": HOLE}, r"y: 1 values are missing.*first rows 7"),
        ({"treatment": np.ones(N)}, "treatment: has one value only"),
        ({"treatment": np.arange(N) % 3}, "treatment: has 3 values: take estimand apo"),
        ({"treatment": (np.arange(N) < 3).astype(float)}, "smallest arm has 3 rows: 5 at least"),
        ({"y": np.ones(N)}, "y: is constant"),
        ({"weights": -np.ones(N)}, "weights: must be at least 0"),
        ({"weights": np.zeros(N)}, "weights: must be at least 0, and not all 0"),
        ({"weights": np.ones(3)}, "weights: has 3 rows, and X 60"),
        ({"treatment": None}, "treatment: the data has none"),
    ],
)
def test_what_can_not_be_used_is_told_with_its_place(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitted(bad(**changes))


def test_few_rows_are_refused() -> None:
    few = {name: values[:15] for name, values in world("dgp1").items()}
    with pytest.raises(ValueError, match="X: 15 rows are too few: 20 at least"):
        fitted(few)


def test_words_as_treatments_are_mapped_in_order_and_noted() -> None:
    data = bad(treatment=np.where(world("dgp1", 60)["treatment"] == 1, "drug", "control"))
    found = fitted(data)
    assert "treatment: control is taken as 0 and drug as 1" in found.notes_
    assert found.summary()["estimate"] == fitted(bad()).summary()["estimate"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"loss": "r"}, "loss: r does not identify ate: .*take estimand ato, or cate"),
        ({"estimand": "att", "loss": "ipw"}, "loss: ipw does not identify att: take dr"),
        ({"prior": "gp"}, "prior: ate takes a prior over numbers, not gp"),
        ({"estimand": "cate", "prior": "gaussian"}, "prior: cate takes a prior over functions: gp, linear"),
        ({"estimand": "late"}, "instrument: the data has none"),
        ({"loss": "huber"}, "posterior: conjugate has no closed form, since huber is no square: take grid, laplace"),
        ({"prior": "laplace"}, "posterior: conjugate has no closed form, since the prior laplace is not normal"),
        ({"prior": "spike_slab", "posterior": "laplace"}, "posterior: it does not see the mass of spike_slab"),
        ({"prior": "student_t", "posterior": "pcn"}, "posterior: pcn needs a normal prior, not student_t: take nuts"),
        ({"estimand": "gate", "posterior": "grid"}, "posterior: grid is for one number"),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitted(world("dgp1"), **arguments)


def test_further_rows_must_have_the_same_columns() -> None:
    import pandas as pd

    data = world("dgp1")
    frame = pd.DataFrame(data["x"], columns=["age", "dose"])
    found = make("estimators/gbayes_causal", estimand="cate", prior="linear").fit(
        frame, data["y"], treatment=data["treatment"]
    )
    np.testing.assert_array_equal(found.predict(frame[["dose", "age"]]), found.predict(frame))
    with pytest.raises(ValueError, match="X: has no column dose"):
        found.predict(frame[["age"]])
    with pytest.raises(ValueError, match="X: has 1 columns, and the fit had 2"):
        found.predict(data["x"][:, :1])


@pytest.mark.slow
def test_orthogonal_losses_cover_and_others_do_not() -> None:
    """200 data sets of 1000 rows; the Monte-Carlo error of .95 is .015."""

    def coverage(name: str, **arguments: Any) -> float:
        facts = dgps.effects(name)
        inside = []
        for seed in range(200):
            data = dgps.draw(name, 1000, numpy_generator(seed, "causal_dgp"))
            found = make("estimators/gbayes_causal", facts=facts, seed=seed, **arguments)
            found.fit(data["x"], data["y"], treatment=data["treatment"], truth=data["truth"])
            inside.append(found.summary()["covered"])
        return float(np.mean(inside))

    for name in ("dgp1", "dgp2", "dgp3", "dgp4", "dgp5", "dgp7", "dgp8", "dgp9"):
        assert 0.90 <= coverage(name, prior={"type": "gaussian", "sd": 1.0}) <= 0.995, name
    assert coverage("dgp1", loss="ra") < 0.25
    assert coverage("dgp6") < 0.75


def test_it_is_an_estimator_of_scikit_learn() -> None:
    """Constructor, clone and parameters as scikit-learn has them; parts by name, as a dict, or built."""
    from sklearn.base import clone

    from raycipe.components.estimators.gbayes_causal import GbayesCausal

    data = world("dgp1")
    direct = GbayesCausal(loss={"type": "dr", "clip": 0.02}, prior=make("priors/gaussian", sd=0.5))  # type: ignore[arg-type]
    copied = clone(direct)
    assert copied.get_params()["loss"] == {"type": "dr", "clip": 0.02} and not hasattr(copied, "fits_")
    fits = [each.fit(data["x"], data["y"], treatment=data["treatment"]).summary() for each in (direct, copied)]
    assert fits[0] == fits[1]
    weak = copied.set_params(prior="gaussian").fit(data["x"], data["y"], treatment=data["treatment"]).summary()
    assert weak["estimate"] > fits[0]["estimate"]  # no longer pulled to 0
    default = GbayesCausal().fit(data["x"], data["y"], treatment=data["treatment"])
    assert default.predict(data["x"]).shape == (400,)


def test_folds_at_the_same_time_give_the_same_numbers(ray_session: Any) -> None:
    from raycipe.launchers.fan_out import Places, mapper

    data = world("dgp2")
    one, many = (make("estimators/gbayes_causal", estimand="cate", loss="x", prior="linear") for _ in range(2))
    many.fan_out = mapper(Places(2, {"num_cpus": 1}))
    for each in (one, many):
        each.fit(data["x"], data["y"], treatment=data["treatment"])
    np.testing.assert_array_equal(one.predict(data["x"]), many.predict(data["x"]))


def test_a_dose_response_curve_holds_the_truth() -> None:
    """The curve is sin a + a / 2, though sicker people take larger doses."""
    data = dgps.draw("dose", 1500, np.random.default_rng(0))
    found = fitted(data, estimand="dose_response", prior={"type": "gp", "inducing": 20})
    at = np.linspace(-1.5, 1.5, 31)
    low, high = found.interval(at[:, None])
    truth = dgps.dose_curve(at)
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    assert np.abs(found.predict(at[:, None]) - truth).max() < 0.3
    assert found.evidence().tables["curve"][0].keys() == {"treatment", "estimate", "low", "high"}


def test_groups_have_the_means_of_their_pseudo_outcomes() -> None:
    data = world("dgp2")
    found = fitted(data, estimand={"type": "gate", "column": 0, "bins": 3}, prior={"type": "gaussian", "sd": 1e6})
    fit = found.fits_[0]
    phi = fit.problem.loss.w_phi
    group = np.searchsorted(np.quantile(data["x"][:, 0], [1 / 3, 2 / 3]), data["x"][:, 0], side="right")
    rows = found.evidence().tables["groups"]
    assert [row["estimate"] for row in rows] == pytest.approx([phi[group == k].mean() for k in range(3)], abs=1e-6)
    assert [row["rows"] for row in rows] == [int((group == k).sum()) for k in range(3)]


def test_the_x_learner_joins_the_arms_by_their_propensity() -> None:
    """Effects are e(x) g0(x) + (1 - e(x)) g1(x), each arm's function fitted to that arm alone."""
    data = world("dgp2")
    found = fitted(data, estimand="cate", loss="x", prior="linear")
    fit = found.fits_[0]
    half = fit.density.size // 2
    g0, g1 = fit.solution.mean[:half], fit.solution.mean[half:]
    basis = fit.problem.basis[:, :half] + fit.problem.basis[:, half:]
    e = np.clip(fit.nuisances.at(data["x"])["e"], 0.01, 0.99)
    np.testing.assert_allclose(found.predict(data["x"]), e * (basis @ g0) + (1 - e) * (basis @ g1), atol=1e-9)
    a = data["treatment"] == 1
    assert not fit.problem.basis[a, :half].any() and not fit.problem.basis[~a, half:].any()


def test_the_risk_ratio_is_that_of_the_means() -> None:
    data = world("risk", 1000)
    found = fitted(data, loss="logistic_rr", posterior="laplace", prior={"type": "gaussian", "sd": 100.0})
    loss = found.fits_[0].problem.loss
    seen = found.summary()
    assert seen["estimate"] == pytest.approx(np.log(loss.phi1.mean() / loss.phi0.mean()), abs=1e-5)
    assert seen["low"] < dgps.RISK_EFFECT < seen["high"] and "covered" not in seen
    with pytest.raises(ValueError, match="loss: logistic_rr needs outcomes that are never negative"):
        fitted(world("dgp1"), loss="logistic_rr", posterior="laplace")


def test_a_refit_with_equal_weights_is_the_fit() -> None:
    """What calibrations are given to fit the nuisances again: the same design, level and folds."""
    from raycipe.framework.contracts import Calibrated, Calibration, Evidence

    class Looks(Calibration):
        def rate(self, evidence: Evidence) -> Calibrated:
            again = evidence.refit(np.ones(400), True)
            g = np.zeros(400)
            np.testing.assert_allclose(again.slope(g), evidence.problem.loss.slope(g), atol=1e-10)
            return Calibrated(1.0, "looked")

    for estimand in ("ate", {"type": "apo", "level": 0}):
        assert fitted(world("dgp2"), estimand=estimand, calibration=Looks()).summary()["omega"] == 1.0


def test_folds_are_no_more_than_the_smallest_arm_has_rows() -> None:
    data = bad(treatment=(np.arange(60) % 10 == 0).astype(float))
    found = make("estimators/gbayes_causal", nuisance={"type": "crossfit", "folds": 10}).fit(
        data["x"], data["y"], treatment=data["treatment"]
    )
    assert len(np.unique(found.fits_[0].folds)) == 6
    assert "6 folds instead of 10: an arm has 6 rows" in found.notes_
