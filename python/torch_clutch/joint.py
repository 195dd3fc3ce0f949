"""Splits the joint graph of a training step into forward and backward."""

import operator
from typing import Any

import torch
from torch._functorch.partitioners import is_rng_op, min_cut_rematerialization_partition, must_recompute
from torch.utils.checkpoint import CheckpointPolicy


def split_joint(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Forward and backward graph by the least memory that passes between them.

    Random numbers that a checkpoint would draw again are kept instead: to draw them again the generator's state would have to be an
    input of the backward graph, and the device draws from seeds.
    """
    for node in joint.graph.nodes:
        if must_recompute(node) and is_rng_op(node):
            results = [user for user in node.users if user.target is operator.getitem]
            for kept in (node, *results):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return min_cut_rematerialization_partition(joint, inputs, **options)
