"""What training loops use beside a model and a loss, each against eager."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import torch_clutch
from op_checks import assert_same, check, check_grad, compiled, floats

STEPS = 4


class Net(nn.Module):
    """Two layers with batch norm between; with checkpoints layer norm, as eager updates statistics twice and PyTorch's graphs once."""

    def __init__(self, recompute: bool = False, reentrant: bool = False) -> None:
        super().__init__()
        # A bias before a norm has no gradient but roundings, which Adam makes large.
        self.first, self.norm, self.last = nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.recompute, self.reentrant = recompute, reentrant
        if recompute:
            self.norm = nn.LayerNorm(8)

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(self.first(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = checkpoint(self.inner, x, use_reentrant=self.reentrant) if self.recompute else self.inner(x)
        return self.last(h)


def twins(make: Callable[[], nn.Module] = Net) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = make()
    return model, copy.deepcopy(model)


def same_state(found: nn.Module, expected: nn.Module) -> None:
    assert_same(dict(found.state_dict()), dict(expected.state_dict()), rtol=1e-4, atol=1e-6)


def batches(count: int = STEPS) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(floats(5, 6, seed=k), floats(5, 3, seed=100 + k)) for k in range(count)]


def test_muon() -> None:
    def train(model: nn.Module, forward: Any, whole: bool) -> None:
        optimizer = torch.optim.Muon([model.first.weight, model.last.weight], lr=0.02, weight_decay=0.1)
        step = torch.compile(optimizer.step, backend="tpu") if whole else optimizer.step
        for x, y in batches():
            optimizer.zero_grad()
            F.mse_loss(forward(x), y).backward()
            step()

    model, twin = twins()
    train(model, compiled(model), True)
    train(twin, twin, False)
    # Muon orthogonalises in bfloat16: its roundings are those of the order of summation.
    for a, b in ((model.first.weight, twin.first.weight), (model.last.weight, twin.last.weight)):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("inside", [True, False])
def test_gradient_clipping(norm: float, inside: bool) -> None:
    def train(model: nn.Module, forward: Any, clip: Any) -> list[torch.Tensor]:
        optimizer, norms = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
        for x, y in batches():
            optimizer.zero_grad()
            (10 * F.mse_loss(forward(x), y)).backward()
            norms.append(clip([p.grad for p in model.parameters()]))
            optimizer.step()
        return norms

    def clip(grads: list[torch.Tensor]) -> torch.Tensor:
        total = torch.nn.utils.get_total_norm(grads, norm)
        factor = (0.5 / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(factor)
        return total

    model, twin = twins()
    found = train(model, compiled(model), torch.compile(clip, backend="tpu", fullgraph=True) if inside else clip)
    assert_same(found, train(twin, twin, clip), rtol=1e-4, atol=1e-6)
    same_state(model, twin)


def test_clip_grad_norm_and_value() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        w = w.detach().requires_grad_()
        with torch.enable_grad():
            (x @ w).square().sum().backward()
        total = torch.nn.utils.clip_grad_norm_([w], 1.0)
        clipped = w.grad.clone()
        torch.nn.utils.clip_grad_value_([w], 0.01)
        return [total, clipped, w.grad]

    x, w = floats(4, 3), floats(3, 2, seed=1)
    torch._dynamo.reset()
    assert_same(torch.compile(f, backend="tpu")(x, w), f(x, w))


def test_accumulation_over_batches() -> None:
    def train(model: nn.Module, forward: Any) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for k, (x, y) in enumerate(batches(6)):
            (F.mse_loss(forward(x), y) / 3).backward()
            if k % 3 == 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=k < 3)

    model, twin = twins()
    train(model, compiled(model))
    train(twin, twin)
    same_state(model, twin)


def test_gradients_of_two_outputs_one_after_the_other() -> None:
    model, twin = twins()
    for m, forward in ((model, compiled(model)), (twin, twin)):
        y = forward(batches()[0][0])
        y[:, 0].sum().backward(retain_graph=True)
        y[:, 1].square().sum().backward()
        assert all(p.grad is not None for p in m.parameters())
    assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()], rtol=1e-4, atol=1e-5)


def test_frozen_parameters_and_detached_parts() -> None:
    class Frozen(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.inner(x)
            return self.last(h) + self.last(h.detach()).mean()

    model, twin = twins(Frozen)
    for m, forward in ((model, compiled(model)), (twin, twin)):
        m.first.requires_grad_(False)
        forward(batches()[0][0]).square().sum().backward()
        assert m.first.weight.grad is None
    assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant: bool) -> None:
    model, twin = twins(lambda: Net(True, reentrant))
    # Dynamo leaves re-entrant checkpoints to eager, which calls the compiled parts.
    run = compiled(model) if not reentrant else torch.compile(model, backend="tpu")
    for x, y in batches():
        for m, forward in ((model, run), (twin, twin)):
            x = x.detach().requires_grad_()
            F.mse_loss(forward(x), y).backward()
            with torch.no_grad():
                for p in m.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    same_state(model, twin)


@pytest.mark.parametrize(
    "draw", [lambda x: F.dropout(x, 0.5), lambda x: 2 * x * (torch.rand_like(x) > 0.5), lambda x: 2 * x * torch.bernoulli(x * 0 + 0.5)]
)
def test_checkpoints_keep_what_was_drawn(draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: draw(x.sin()), x, use_reentrant=False)

    x = floats(64, 64).requires_grad_()
    y = compiled(f)(x)
    y.sum().backward()
    assert 0.4 < (y == 0).float().mean() < 0.6
    assert_same(x.grad, torch.where(y == 0, 0.0, 2 * x.detach().cos()))


def test_grad_scaler() -> None:
    def train(model: nn.Module, forward: Any) -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler, scales = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2), []
        for k, (x, y) in enumerate(batches(6)):
            optimizer.zero_grad()
            loss = F.mse_loss(forward(x), y)
            # One step overflows: it is left out and the scale falls.
            scaler.scale(loss * (float("inf") if k == 3 else 1.0)).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return scales

    model, twin = twins()
    assert train(model, compiled(model)) == train(twin, twin)
    same_state(model, twin)


def test_autocast_with_a_custom_loss() -> None:
    model, twin = twins()
    grads = []
    for m, forward in ((model, compiled(model)), (twin, twin)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = forward(batches()[0][0])
        (y.float() - batches()[0][1]).abs().sum().backward()
        grads.append([p.grad for p in m.parameters()])
    assert y.dtype == torch.bfloat16
    assert_same(grads[0], grads[1], rtol=5e-2, atol=5e-2)


class Clamp(torch.autograd.Function):
    """A clamp whose gradient passes straight through, scaled by a number."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, limit: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * torch.where(x.abs() > ctx.limit, 0.25, 1.0), None


class Split(torch.autograd.Function):
    """Two results, of which one is not differentiable."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = x > 0
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return x.relu(), mask

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> torch.Tensor:
        (mask,) = ctx.saved_tensors
        return 3 * grad * mask


def test_custom_autograd_functions() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y, mask = Split.apply(Clamp.apply(x @ w, 0.5))
        return y * mask + y.square()

    check_grad(f, floats(4, 3, grad=True), floats(3, 5, seed=1, grad=True))


def test_hooks_on_gradients() -> None:
    seen = []
    model, twin = twins()
    for m in (model, twin):
        m.last.weight.register_hook(lambda g: 2 * g)
        m.first.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    for m, forward in ((model, compiled(model)), (twin, twin)):
        forward(batches()[0][0]).square().mean().backward()
        assert m.last.weight.grad is not None
    assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()], rtol=1e-4, atol=1e-6)
    assert_same(seen[0], seen[1], rtol=1e-4, atol=1e-6)


def test_gradient_penalty() -> None:
    # A gradient inside the compiled function, differentiated again.
    def penalty(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        grad = torch.func.grad(lambda x: (x @ w).tanh().sum())(x)
        return grad.square().sum()

    check(torch.func.grad(penalty), floats(3, 4), floats(2, 3, seed=1), rtol=1e-4, atol=1e-5)


T = torch.func
A, B = floats(4, 3), floats(3, 3, seed=1)
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "vmap": lambda a, b: T.vmap(lambda r: (b @ r).softmax(0))(a),
    "vmap of two axes": lambda a, b: T.vmap(lambda r, c: r.outer(c), in_dims=(0, 1), out_dims=1)(a, b.new_ones(3, 4)),
    "nested vmap": lambda a, b: T.vmap(T.vmap(lambda x, y: (x * y).sin(), (None, 0)), (0, None))(a[:, 0], b[:, 0]),
    "grad": lambda a, b: T.grad(lambda a: (a @ b).exp().sum())(a),
    "grad and value": lambda a, b: T.grad_and_value(lambda a: (a @ b).logsumexp((0, 1)))(a),
    "gradients of each sample": lambda a, b: T.vmap(T.grad(lambda b, r: (b @ r).square().sum()), (None, 0))(b, a),
    "vjp": lambda a, b: T.vjp(lambda a: (a @ b).tanh(), a)[1](a)[0],
    "jvp": lambda a, b: T.jvp(lambda a: (a @ b).tanh(), (a,), (a.cos(),)),
    "jacrev": lambda a, b: T.jacrev(lambda r: (b @ r).sigmoid())(a[0]),
    "jacfwd": lambda a, b: T.jacfwd(lambda r: (b @ r).sigmoid())(a[0]),
    "hessian": lambda a, b: T.hessian(lambda r: (b @ r).square().prod())(a[0]),
    "linearize": lambda a, b: T.jvp(T.grad(lambda r: (b @ r).sin().sum()), (a[0],), (a[1],))[1],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name: str) -> None:
    check(TRANSFORMS[name], A, B, rtol=1e-4, atol=1e-5)


def test_functional_call_of_an_ensemble() -> None:
    models = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)) for _ in range(3)]
    params, buffers = T.stack_module_state(models)

    def f(x: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        return T.vmap(lambda p: T.functional_call(models[0], (p, buffers), (x,)))(params)

    x = batches()[0][0]
    assert_same(compiled(f)(x, params), f(x, params), rtol=1e-4, atol=1e-6)


def test_training_and_evaluation_in_turn() -> None:
    model, twin = twins()
    run = compiled(model)
    for x, y in batches():
        for m, forward in ((model, run), (twin, twin)):
            m.train()
            F.mse_loss(forward(x), y).backward()
            with torch.no_grad():
                for p in m.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
        model.eval(), twin.eval()
        with torch.no_grad():
            assert_same(run(x), twin(x), rtol=1e-4, atol=1e-5)
    same_state(model, twin)
    assert torch_clutch.metrics()["eager_parts"] == 0
