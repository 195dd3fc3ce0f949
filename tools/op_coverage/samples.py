"""Samples of PyTorch's operator database as functions of tensors."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Vectors are unique up to a phase: what the database makes of them for gradients is compared.
UP_TO_PHASE = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd", "svd_lowrank", "pca_lowrank"}
_NARROW = {torch.float32, torch.bfloat16, torch.float16}


class Sample:
    """One call of an operator: its tensors apart, so that a compiled function takes them as arguments."""

    def __init__(self, op: Any, sample: Any, backward: bool) -> None:
        self.op, self.backward = op, backward
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [leaves[i] for i in self.places]
        self.rest = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.finish = sample.output_process_fn_grad

    def inputs(self) -> list[torch.Tensor]:
        """Fresh copies of the tensors, with their strides."""
        return [t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad) for t in self.tensors]

    def function(self) -> Callable[..., Any]:
        """The operator as a function of the tensors alone."""
        call, places, rest, spec = self.op.get_op(), self.places, self.rest, self.spec

        def f(*tensors: Any) -> Any:
            leaves = list(rest)
            for place, tensor in zip(places, tensors, strict=True):
                leaves[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(leaves, spec)
            return call(first, *args, **kwargs)

        return f

    def exact(self) -> "Sample":
        """The sample with floats widened to float64."""
        wide = copy.copy(self)
        tensors = [t.detach().double() if t.dtype in _NARROW else t.detach() for t in self.tensors]
        wide.tensors = [t.requires_grad_(like.requires_grad) for t, like in zip(tensors, self.tensors, strict=True)]
        wide.rest = [torch.float64 if isinstance(x, torch.dtype) and x in _NARROW else x for x in self.rest]
        return wide

    def run(self, f: Callable[..., Any]) -> list[Any]:
        """Results of `f`; with gradients of a fixed weighting of them when the sample is one of backward."""
        torch.manual_seed(0)
        xs = self.inputs()
        results = f(*xs)
        kept = self.finish(results) if self.op.name in UP_TO_PHASE else results
        flat = [x for x in pytree.tree_leaves(kept) if x is not None]
        if not self.backward:
            return flat
        finished = pytree.tree_leaves(self.finish(results))
        roots = [y for y in finished if isinstance(y, torch.Tensor) and y.requires_grad]
        wanted = [x for x in xs if x.requires_grad]
        weights = [torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.dtype) for y in roots]
        grads = torch.autograd.grad(roots, wanted, weights, allow_unused=True) if roots and wanted else []
        return flat + [g for g in grads if g is not None]

    def draws(self) -> bool:
        """Whether the operator draws random numbers: it moves the generator."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        self.function()(*self.inputs())
        return not torch.equal(before, torch.get_rng_state())


def name(op: Any) -> str:
    """The operator's name in the database, with its variant's."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def database() -> dict[str, Any]:
    """The entries of the database by name, in its order. Samples seed the generator themselves: the database's wrapper around
    operators that draw cannot be captured."""
    from torch.testing._internal import common_methods_invocations

    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {name(op): op for op in common_methods_invocations.op_db}


def supported(op: Any, dtype: torch.dtype, backward: bool) -> bool:
    """Whether the operator takes the type on CPU, in the direction."""
    if backward:
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    return dtype in op.supported_dtypes("cpu")


def spread(count: int, most: int) -> list[int]:
    """Numbers of up to `most` samples of `count`: the first, the last and some between. All where `most` is zero."""
    if most == 0 or count <= most:
        return list(range(count))
    step = (count - 1) / max(most - 1, 1)
    return sorted({round(k * step) for k in range(most)})
