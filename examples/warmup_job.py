"""A job that is warmed up before it runs: everything that it will need is compiled ahead of time, also for a TPU that is not here.

    clutch warmup examples/warmup_job.py --target cpu --target v5e:2x2 -j 2
    python examples/warmup_job.py

The second command compiles nothing.
"""

import torch

import torch_clutch
from torch_clutch.warmup import Model

LENGTHS = [16, 32, 64]


class Classifier(torch.nn.Module):
    """A small text classifier: embedding, self-attention, mean, linear."""

    def __init__(self, words: int = 1000, width: int = 64, classes: int = 5) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.projection = torch.nn.Linear(width, 3 * width)
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, classes))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        q, k, v = self.projection(self.embedding(tokens)).unflatten(-1, (4, -1)).transpose(1, 2).chunk(3, -1)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(attended.transpose(1, 2).flatten(2).mean(1))


def tokens(length: int) -> torch.Tensor:
    """A batch of four texts of this length."""
    return torch.randint(0, 1000, (4, length))


def clutch_warmup():
    """What `clutch warmup` compiles: the model for each length, and one training step."""
    yield Model("serve", Classifier().eval(), args=lambda length: (tokens(length),), buckets=LENGTHS, dynamic=False)
    yield Model("train", Classifier(), args=(tokens(16),), training=True, dynamic=False)


def main() -> None:
    """Serves all lengths, trains one step, and says what had to be compiled."""
    torch.manual_seed(0)
    served = Classifier().eval()
    serve = torch.compile(served, backend="tpu", dynamic=False)
    with torch.no_grad():
        for length in LENGTHS:
            batch = tokens(length)
            torch.testing.assert_close(serve(batch), served(batch), rtol=1e-3, atol=1e-4)
    trained = Classifier()
    loss = torch.compile(trained, backend="tpu", dynamic=False)(tokens(16)).square().mean()
    loss.backward()
    found = torch_clutch.metrics()
    print(f"{found['graph_hits']} graphs came from the cache, {found['graph_misses']} did not; {found['compiles']} programs were compiled")


if __name__ == "__main__":
    main()
