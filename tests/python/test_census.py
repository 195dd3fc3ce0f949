"""Every operator that a census of common models met has a lowering.

`data/census.txt` lists the operators that AOTAutograd hands over for BERT, GPT-2, Llama, Mamba, Qwen3-MoE, ResNet-50, T5, U-Net,
ViT and Whisper, in inference and training, under several decomposition tables.
"""

from pathlib import Path

import pytest

from torch_clutch import _clutch

CENSUS = (Path(__file__).parent / "data" / "census.txt").read_text().split()


@pytest.mark.parametrize("op", CENSUS)
def test_has_a_lowering(op: str) -> None:
    assert op in _clutch.supported_operators()
