"""Ten model families against eager: outputs, gradients, bfloat16, autocast, training.

Tiny sizes here; base sizes with ``pytest -m base`` (``make families``).
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import families
import torch_clutch

RTOL, ATOL = 1e-4, 1e-5
LEARNING_RATE = 1e-4
SIZES = [pytest.param(families.TINY, id="tiny"), pytest.param(families.BASE, id="base", marks=pytest.mark.base)]
every_family = pytest.mark.parametrize("family", families.FAMILIES)
every_size = pytest.mark.parametrize("size", SIZES)


def compiled(model: Callable) -> Callable:
    """The model compiled whole, without eager parts."""
    return torch.compile(model, backend="tpu", fullgraph=True, dynamic=False, options={"fallback": "error"})


def tensors(output: Any) -> list[torch.Tensor]:
    """All tensors of a model's output, in order."""
    return [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, torch.Tensor)]


def off_by(found: Iterable[torch.Tensor], expected: Iterable[torch.Tensor], scale: float = 1.0) -> float:
    """The largest difference in units of the float32 tolerance, relative to each tensor's largest value."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.is_floating_point() and a.numel():
            assert torch.equal(a.isnan(), b.isnan())
            a, b = a.double().nan_to_num(), b.double().nan_to_num()
            limit = scale * (ATOL + RTOL * b.abs().max())
            worst = max(worst, ((a - b).abs().max() / limit).item())
        else:
            assert torch.equal(a, b)
    return worst


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def doubled(inputs: dict[str, Any]) -> dict[str, Any]:
    return {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in inputs.items()}


@every_size
@every_family
def test_inference(family: str, size: str) -> None:
    case = families.make(family, size)
    case.model.eval()
    with torch.no_grad():
        expected = tensors(case.model(**case.inputs))
        run = compiled(case.model)
        assert off_by(tensors(run(**case.inputs)), expected) <= 1
        assert off_by(tensors(run(**case.inputs)), expected) <= 1
    metrics = torch_clutch.metrics()
    assert metrics["captures"] == 1
    assert metrics["eager_parts"] == 0


@every_family
def test_inference_mode(family: str) -> None:
    case = families.make(family)
    case.model.eval()
    with torch.inference_mode():
        expected = tensors(case.model(**case.inputs))
        assert off_by(tensors(compiled(case.model)(**case.inputs)), expected) <= 1


# With seed 0 one of the tiny network's rectifiers gets 1.8e-7 among inputs up to 1.9: float32 cannot tell its side of zero, and the
# gradient has another value on each side.
GRADIENT_SEEDS = {("resnet50", families.TINY): 58}
MARGIN = 1e-6


def test_no_rectifier_of_the_gradient_case_is_at_its_kink() -> None:
    case = families.make("resnet50", families.TINY, GRADIENT_SEEDS["resnet50", families.TINY])
    margins = []

    def measure(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        sizes = inputs[0].abs()
        margins.append((sizes[sizes > 0].min() / sizes.max()).item())

    for module in case.model.eval().double().modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
            module.register_forward_pre_hook(measure)
    with torch.no_grad():
        case.model(**doubled(case.inputs))
    assert len(margins) == 13
    assert min(margins) > MARGIN


@every_size
@every_family
def test_gradients(family: str, size: str) -> None:
    case = families.make(family, size, GRADIENT_SEEDS.get((family, size), 0))
    case.model.eval()  # no dropout: its numbers differ from eager's
    twin, exact = copy.deepcopy(case.model), copy.deepcopy(case.model).double()
    run = compiled(case.model)
    case.loss(run(**case.inputs)).backward()
    case.loss(twin(**case.inputs)).backward()
    found, expected = gradients(case.model), gradients(twin)
    assert list(found) == list(expected)
    assert torch_clutch.metrics()["eager_parts"] == 0
    if off_by(found.values(), expected.values()) > 1:
        # Where eager's own float32 is further than the tolerance from float64, the two may differ, but ours must not be further.
        case.loss(exact(**doubled(case.inputs))).backward()
        true = {n: g.float() for n, g in gradients(exact).items()}
        eager = off_by(expected.values(), true.values())
        assert eager > 1
        assert off_by(found.values(), true.values()) <= eager


@every_family
def test_bfloat16_is_as_near_to_float32_as_eager(family: str) -> None:
    case = families.make(family)
    case.model.eval()
    half = copy.deepcopy(case.model).bfloat16()
    inputs = {k: v.bfloat16() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in case.inputs.items()}
    with torch.no_grad():
        exact, eager, ours = (tensors(m(**i)) for m, i in ((case.model, case.inputs), (half, inputs), (compiled(half), inputs)))
    assert_as_near(exact, eager, ours)


@every_family
def test_autocast_is_as_near_to_float32_as_eager(family: str) -> None:
    case = families.make(family)
    case.model.eval()
    with torch.no_grad():
        exact = tensors(case.model(**case.inputs))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            eager, ours = tensors(case.model(**case.inputs)), tensors(compiled(case.model)(**case.inputs))
    assert_as_near(exact, eager, ours)


def assert_as_near(exact: list[torch.Tensor], eager: list[torch.Tensor], ours: list[torch.Tensor]) -> None:
    """Root mean square errors: ours is at most a quarter over eager's, plus a rounding of bfloat16."""
    for x, e, o in zip(exact, eager, ours, strict=True):
        assert o.dtype == e.dtype
        if x.is_floating_point():
            rms = [((t.double() - x.double()).square().mean().sqrt()).item() for t in (e, o)]
            size = x.double().square().mean().sqrt().item()
            assert rms[1] <= 1.25 * rms[0] + size * 2**-8, f"error {rms[1]:.3e}, eager's {rms[0]:.3e}, size {size:.3e}"


@every_family
def test_ten_steps_of_adamw_follow_the_loss_curve_of_eager(family: str) -> None:
    case = families.make(family)
    twin = copy.deepcopy(case.model)
    for model in (case.model, twin):
        model.train()
        for m in model.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0.0
        config = getattr(model, "config", None)
        for name in ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout", "dropout_rate", "activation_dropout"):
            if hasattr(config, name):
                setattr(config, name, 0.0)
        for m in model.modules():
            for name in ("dropout", "attention_dropout", "activation_dropout"):
                if isinstance(getattr(m, name, None), float):
                    setattr(m, name, 0.0)
    found, expected = train(case, case.model, compile_all=True), train(case, twin, compile_all=False)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-3, atol=0.0)
    assert expected[-1] < expected[0]


def train(case: families.Case, model: nn.Module, *, compile_all: bool) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(LEARNING_RATE) if compile_all else LEARNING_RATE)
    run, step = (compiled(model), torch.compile(optimizer.step, backend="tpu")) if compile_all else (model, optimizer.step)
    losses = []
    for _ in range(10):
        loss = case.loss(run(**case.inputs))
        optimizer.zero_grad()
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


def test_graph_breaks_leave_the_rest_compiled() -> None:
    case = families.make("bert")
    case.model.eval()
    seen = []

    def forward(**inputs: Any) -> torch.Tensor:
        logits = case.model(**inputs).logits
        seen.append(float(logits.sum()))
        return logits.softmax(-1)

    with torch.no_grad():
        expected = forward(**case.inputs)
        found = torch.compile(forward, backend="tpu")(**case.inputs)
    assert off_by([found], [expected]) <= 1
    assert len(seen) == 2
    assert torch_clutch.metrics()["captures"] >= 2
