"""Every method's terms and gradients against its paper's formula, written out in plain torch.

The plain way keeps a deep copy of the model as reference, runs one sequence at a time without padding, and
computes all logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from method_variants import VARIANTS, gradients, make_variant
from rounding import assert_same
from torch import Tensor

from medunlearn.methods import make_method
from medunlearn.models.batches import collate
from medunlearn.models.reference import Reference
from medunlearn.seeds import stable_seed
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
LAYER = 1
ARGUMENTS: dict[str, dict[str, float]] = {
    "adaptive_rmu": {"layer": LAYER, "coefficient": 3.0, "alpha": 1.3, "seed": 5},
    "memorize": {},
    "ceu": {"gamma": 0.7, "alpha": 1.3},
    "ga": {},
    "graddiff": {"gamma": 0.7, "alpha": 1.3},
    "kl_min": {"gamma": 0.7, "alpha": 1.3},
    "ngdiff": {},
    "pdu": {"gamma": 0.7, "alpha": 1.3},
    "npo": {"beta": 0.3, "alpha": 1.3},
    "satimp": {"beta": 3.0, "beta2": 2.0, "gamma": 0.7, "alpha": 1.3},
    "undial": {"beta": 2.0, "gamma": 0.7, "alpha": 1.3},
    "wga": {"beta": 1.5, "gamma": 0.7, "alpha": 1.3},
    "simnpo": {"beta": 0.5, "delta": 0.4, "gamma": 0.5, "alpha": 1.3},
    "rmu": {"layer": LAYER, "coefficient": 3.0, "alpha": 1.3, "seed": 5},
}


def method_of(label: str) -> Any:
    return make_variant(label, **ARGUMENTS[label.partition(".")[0]])


def answer_logits(model: Any, sequence: Any) -> Tensor:
    """Logits that predict the answer's tokens, [answer tokens, vocabulary], of one sequence alone."""
    ids = torch.tensor([sequence.ids])
    predicted_at = slice(sequence.scored_from - 1, len(sequence.ids) - 1)
    return model(input_ids=ids, use_cache=False).logits[0, predicted_at]


def token_nlls(model: Any, sequence: Any) -> Tensor:
    answer = torch.tensor(sequence.ids[sequence.scored_from :])
    return torch.nn.functional.cross_entropy(answer_logits(model, sequence), answer, reduction="none")


def states(model: Any, sequence: Any) -> Tensor:
    """Output of the layer at every token, [tokens, width]."""
    ids = torch.tensor([sequence.ids])
    hidden: Tensor = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[LAYER + 1]
    return hidden[0]


def likelihood(model: Any, sequences: Any) -> Tensor:
    return torch.cat([token_nlls(model, s) for s in sequences]).mean()


def plain_ga(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {"forget": -likelihood(model, forget)}


def plain_graddiff(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {"forget": -0.7 * likelihood(model, forget), "retain": 1.3 * likelihood(model, retain)}


def plain_kl_min(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    # KL(p_ref || p), by torch's own function, over answer tokens alone.
    divergences = [
        torch.nn.functional.kl_div(
            answer_logits(model, s).log_softmax(1), answer_logits(before, s).softmax(1), reduction="none"
        ).sum(1)
        for s in retain
    ]
    return {"forget": -0.7 * likelihood(model, forget), "retain_kl": 1.3 * torch.cat(divergences).mean()}


def plain_kl_min_at_all_positions(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    # OpenUnlearning: logits of the whole input; torch's "batchmean" divides by the rows, here the tokens.
    now, then = (
        torch.cat([each(input_ids=torch.tensor([s.ids]), use_cache=False).logits[0] for s in retain]).log_softmax(1)
        for each in (model, before)
    )
    divergence = torch.nn.functional.kl_div(now, then, reduction="batchmean", log_target=True)
    return {"forget": -0.7 * likelihood(model, forget), "retain_kl": 1.3 * divergence}


def plain_ngdiff(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {"forget": -likelihood(model, forget), "retain": likelihood(model, retain)}


def plain_npo(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    beta, each = 0.3, []
    for s in forget:
        ratio = torch.exp(token_nlls(before, s).sum() - token_nlls(model, s).sum())  # p(y|x) / p_ref(y|x)
        each.append(2 / beta * torch.log(1 + ratio**beta))
    return {"forget": torch.stack(each).mean(), "retain": 1.3 * likelihood(model, retain)}


def plain_simnpo(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    beta, delta, each = 0.5, 0.4, []
    for s in forget:
        nlls = token_nlls(model, s)
        each.append(-2 / beta * torch.log(torch.sigmoid(beta / len(nlls) * nlls.sum() - delta)))
    return {"forget": 0.5 * torch.stack(each).mean(), "retain": 1.3 * likelihood(model, retain)}


def plain_simnpo_with_the_margin_inside(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    beta, delta = 0.5, 0.4
    losses = torch.stack([token_nlls(model, s).sum() / len(token_nlls(model, s)) for s in forget])
    preference = -torch.nn.functional.logsigmoid(beta * (losses - delta)).mean() * 2 / beta
    return {"forget": 0.5 * preference, "retain": 1.3 * likelihood(model, retain)}


def plain_ceu(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return distilled(model, model, forget, retain, math.inf)


def plain_undial(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return distilled(model, before, forget, retain, 2.0)


def distilled(model: Any, teacher: Any, forget: Any, retain: Any, lowered: float) -> dict[str, Tensor]:
    """Torch's own cross-entropy with soft labels, from the teacher's logits with the true token's lowered."""
    each = []
    for s in forget:
        answer = torch.tensor(s.ids[s.scored_from :])
        logits = answer_logits(teacher, s).detach()
        logits[torch.arange(len(answer)), answer] -= lowered
        each.append(torch.nn.functional.cross_entropy(answer_logits(model, s), logits.softmax(1), reduction="none"))
    return {"forget": 0.7 * torch.cat(each).mean(), "retain": 1.3 * likelihood(model, retain)}


def plain_pdu(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {
        **flattened(model, forget, retain),
        "measured_excess": likelihood(model, retain).detach() - likelihood(before, retain),
    }


def plain_pdu_of_openunlearning(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {**flattened(model, forget, retain), "measured_excess": likelihood(model, retain).detach()}


def flattened(model: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    logits = torch.cat([answer_logits(model, s) for s in forget])
    margin = (logits.amax(1) - logits.sum(1) / logits.shape[1]) ** 2
    return {"forget": 0.7 * margin.mean(), "retain": 1.3 * likelihood(model, retain)}


def plain_wga(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    nlls = torch.cat([token_nlls(model, s) for s in forget])
    weights = torch.exp(-nlls.detach()) ** 1.5
    return {"forget": -0.7 * (weights * nlls).mean(), "retain": 1.3 * likelihood(model, retain)}


def plain_satimp(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    nlls = torch.cat([token_nlls(model, s) for s in forget])
    p = torch.exp(-nlls.detach())
    return {"forget": -0.7 * (p**3 * (1 - p) ** 2 * nlls).mean(), "retain": 1.3 * likelihood(model, retain)}


def steering_vector(model: Any) -> Tensor:
    source = torch.Generator().manual_seed(stable_seed("rmu", 5))
    direction = torch.rand(model.config.hidden_size, generator=source)
    return 3.0 * (direction / direction.norm()).double()


def plain_rmu_of_wmdp(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    # The mean squared error over every token of the batch and every dimension.
    target, mse = steering_vector(model), torch.nn.functional.mse_loss
    steered, now, then = (
        torch.cat([states(each, s) for s in members])
        for each, members in ((model, forget), (model, retain), (before, retain))
    )
    return {"forget": mse(steered, target.expand_as(steered)), "retain": 1.3 * mse(now, then)}


def plain_adaptive_rmu(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    mse = torch.nn.functional.mse_loss
    steered, lengths = torch.cat([states(model, s) for s in forget]), torch.cat([states(before, s) for s in forget])
    target = torch.linalg.vector_norm(lengths, dim=1)[:, None] * steering_vector(model)
    retained = plain_rmu_of_wmdp(model, before, forget, retain)["retain"]
    return {"forget": mse(steered, target), "retain": retained}


def plain_memorize(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    return {"forget": likelihood(model, forget)}


def plain_rmu_of_openunlearning(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    """At the tokens with a label: a vector of sums over them, [S], over a column of their counts, [S, 1]."""

    def averaged(members: Any, target_of: Callable[[Any], Tensor]) -> Tensor:
        errors = [((states(model, s) - target_of(s)) ** 2).mean(1)[s.scored_from :] for s in members]
        counts = torch.tensor([[len(error)] for error in errors])
        return (torch.stack([error.sum() for error in errors]) / counts).mean()

    target = steering_vector(model)
    return {
        "forget": averaged(forget, lambda s: target),
        "retain": 1.3 * averaged(retain, lambda s: states(before, s)),
    }


def plain_adaptive_rmu_of_openunlearning(model: Any, before: Any, forget: Any, retain: Any) -> dict[str, Tensor]:
    each, retained = [], plain_rmu_of_openunlearning(model, before, forget, retain)["retain"]
    for s in forget:
        lengths = torch.linalg.vector_norm(states(before, s), dim=1)[:, None]
        each.append(((states(model, s) - lengths * steering_vector(model)) ** 2).mean(1)[s.scored_from :])
    counts = torch.tensor([[len(error)] for error in each])
    return {"forget": (torch.stack([error.sum() for error in each]) / counts).mean(), "retain": retained}


PLAIN: Mapping[str, Callable[..., dict[str, Tensor]]] = {
    "adaptive_rmu.openunlearning": plain_adaptive_rmu_of_openunlearning,
    "adaptive_rmu.wmdp": plain_adaptive_rmu,
    "memorize": plain_memorize,
    "ceu": plain_ceu,
    "ga": plain_ga,
    "graddiff": plain_graddiff,
    "kl_min.answers": plain_kl_min,
    "kl_min.openunlearning": plain_kl_min_at_all_positions,
    "ngdiff": plain_ngdiff,
    "npo": plain_npo,
    "pdu.target": plain_pdu,
    "pdu.openunlearning": plain_pdu_of_openunlearning,
    "rmu.openunlearning": plain_rmu_of_openunlearning,
    "rmu.wmdp": plain_rmu_of_wmdp,
    "simnpo.paper": plain_simnpo,
    "satimp": plain_satimp,
    "simnpo.openunlearning": plain_simnpo_with_the_margin_inside,
    "undial": plain_undial,
    "wga": plain_wga,
}


def views(model: Any, sides: Mapping[str, Any], reference: Reference, pad: int = 2) -> dict[str, ModelView]:
    return {
        side: ModelView(model, collate(members, pad, CPU), Totals.of(members), reference)
        for side, members in sides.items()
    }


def test_every_method_has_a_plain_counterpart() -> None:
    assert PLAIN.keys() == set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_terms_and_gradients_are_the_papers(
    name: str, moved: tuple[Any, Any, Reference], make_sequences: Callable[..., Any]
) -> None:
    model, before, reference = moved
    forget, retain = make_sequences(5, "f"), make_sequences(5, "r")
    assert len({s.scored for s in forget}) > 2
    assert len({s.scored_from for s in forget}) > 2
    side_views = views(model, {"forget": forget, "retain": retain}, reference)
    ours = method_of(name).loss(side_views["forget"], side_views["retain"])
    ours_gradients = gradients(model, ours)
    theirs = PLAIN[name](model, before, forget, retain)
    assert_same(ours, theirs)
    assert_same(ours_gradients, gradients(model, theirs))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("pad", [1, 77])
def test_padding_changes_nothing(
    name: str, pad: int, moved: tuple[Any, Any, Reference], make_sequences: Callable[..., Any]
) -> None:
    # 1 is EOS, which every answer ends with and is scored; 77 is a word.
    model, _, reference = moved
    sides = {"forget": make_sequences(5, "f"), "retain": make_sequences(5, "r")}
    method, results = method_of(name), []
    for token in (2, pad):
        side_views = views(model, sides, reference, token)
        terms = method.loss(side_views["forget"], side_views["retain"])
        results.append((terms, gradients(model, terms)))
    (usual, usual_gradients), (other, other_gradients) = results
    assert_same(other, usual)
    assert_same(other_gradients, usual_gradients)


def test_npo_becomes_gradient_ascent_as_beta_falls(
    moved: tuple[Any, Any, Reference], make_sequences: Callable[..., Any]
) -> None:
    model, _, reference = moved
    side_views = views(model, {"forget": make_sequences(5, "f"), "retain": make_sequences(1, "r")}, reference)
    flat = []
    for name, arguments in (
        ("ga", {}),
        ("npo", {"beta": 1e-4, "alpha": 0.0}),
        ("npo", {"beta": 5.0, "alpha": 0.0}),
    ):
        terms = make_method(name, arguments).loss(side_views["forget"], side_views["retain"])
        assert terms.keys() == {"forget"}
        by_parameter = gradients(model, {"forget": terms["forget"]})
        flat.append(torch.cat([gradient.flatten() for gradient in by_parameter.values()]))
        side_views = views(model, {"forget": make_sequences(5, "f"), "retain": make_sequences(1, "r")}, reference)
    ascent, limit, sharp = flat
    assert torch.cosine_similarity(limit, ascent, dim=0) > 0.9999
    assert torch.cosine_similarity(sharp, ascent, dim=0) < 0.999


def test_npo_at_the_reference_is_log_two(tiny: Callable[[], Any], make_sequences: Callable[..., Any]) -> None:
    # Where the model is its own reference the ratio is 1, and the term (2 / beta) log 2 whatever was said.
    model = tiny().model
    side_views = views(model, {"forget": make_sequences(4, "f")}, Reference(model))["forget"]
    terms = make_method("npo", {"beta": 0.1, "alpha": 0}).loss(side_views, side_views)
    assert terms["forget"].item() == pytest.approx(20 * math.log(2), rel=1e-5)


class HandView:
    """Two sequences of 3 and 1 answer tokens; hidden states of width 2 made by hand, the same at all positions."""

    def __init__(self, states: list[list[float]]) -> None:
        self.states, self.positions = torch.tensor(states), list[str]()
        self.reference = self

    def at(self, positions: str) -> HandView:
        self.positions.append(positions)
        return self

    def hidden(self, layer: int) -> Tensor:
        return self.states

    def sequence_sums(self, values: Tensor) -> Tensor:
        return torch.stack([values[:3].sum(), values[3:].sum()])

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        return values.sum() / 2

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        return values.sum() / 4

    def mean_inverse_tokens(self) -> float:
        return (1 / 3 + 1) / 2


@pytest.mark.parametrize(
    ("variant", "positions", "forget"), [("openunlearning", "answer", 10 / 3), ("wmdp", "all", 2.5)]
)
def test_rmu_averages_as_its_code(variant: str, positions: str, forget: float) -> None:
    # With c = 0 the error of a token is half its squared length: 2, 2, 2 and 4. Over tokens: 10 / 4 = 2.5. By
    # OpenUnlearning's broadcast, sums (6, 4) over counts (3, 1): (6/3 + 6/1 + 4/3 + 4/1) / 4 = (40/3) / 4 = 10/3.
    view = HandView([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]])
    terms = make_method("rmu", {"variant": variant, "coefficient": 0.0}).loss(view, view)
    assert terms["forget"].item() == pytest.approx(forget)
    assert terms["retain"].item() == 0
    assert view.positions == [positions, positions]


def test_simnpo_margins_are_one_without_a_margin_and_two_with() -> None:
    class Likelihoods:
        def sequence_nll(self) -> Tensor:
            return torch.tensor([6.0])

        def sequence_tokens(self) -> Tensor:
            return torch.tensor([3])

        def mean_over_sequences(self, values: Tensor) -> Tensor:
            return values.mean()

        def nll(self) -> Tensor:
            return torch.tensor(0.0)

    def forget(variant: str, delta: float) -> float:
        arguments = {"variant": variant, "beta": 2.0, "delta": delta, "gamma": 1.0}
        return float(make_method("simnpo", arguments).loss(Likelihoods(), Likelihoods())["forget"])

    # beta nll / |y| = 4; the margin takes off 1.5, or 2 * 1.5 = 3. Then -(2 / 2) log sigmoid.
    assert forget("paper", 0.0) == forget("openunlearning", 0.0) == pytest.approx(math.log(1 + math.exp(-4)))
    assert forget("paper", 1.5) == pytest.approx(math.log(1 + math.exp(-2.5)))
    assert forget("openunlearning", 1.5) == pytest.approx(math.log(1 + math.exp(-1)))


def test_rmu_direction_has_its_length_and_stays(tiny: Callable[[], Any]) -> None:
    like = torch.zeros(1, 32)
    first = make_method("rmu", {"seed": 1})._direction(like)
    torch.manual_seed(99)
    assert torch.equal(make_method("rmu", {"seed": 1})._direction(like), first)
    assert not torch.equal(make_method("rmu", {"seed": 2})._direction(like), first)
    assert first.norm().item() == pytest.approx(1)
    assert (first >= 0).all()
