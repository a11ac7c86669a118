"""Networks that read an image row by row, as a sequence. Plain PyTorch: an exported script carries their source.

T = 32 rows, N samples, C = 96: the red, green and blue of the 32 pixels of a row. The batch is axis 1 of the inputs, and axis 0 where
`batch_first` is set; the scores have it at axis 0 in both cases.
"""

from __future__ import annotations

import torch
from torch import nn


class Rnn(nn.Module):
    """A two-layer recurrent network: 63,242 parameters with 10 classes.

    Inputs [T, N, C], or [N, T, C] with `batch_first`; scores [N, num_classes].
    """

    def __init__(self, dropout: float, batch_first: bool, num_classes: int = 10) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.rnn = nn.RNN(96, 128, num_layers=2, dropout=dropout, batch_first=batch_first)
        self.linear = nn.Linear(128, num_classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        count = inputs.shape[0 if self.batch_first else 1]
        # The state's batch axis is 1 even with batch_first, so it cannot be cut like the inputs: each replica makes its own.
        state = torch.zeros(2, count, 128, dtype=inputs.dtype, device=inputs.device)
        hidden, _ = self.rnn(inputs, state)
        scores: torch.Tensor = self.linear(hidden[:, -1] if self.batch_first else hidden[-1])
        return scores


class Transformer(nn.Module):
    """A two-layer transformer encoder: 153,610 parameters with 10 classes.

    Inputs [T, N, C], or [N, T, C] with `batch_first`; scores [N, num_classes].
    """

    def __init__(self, dropout: float, batch_first: bool, num_classes: int = 10) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.places = nn.Parameter(torch.randn(32, 1, 96) * 0.02)
        layer = nn.TransformerEncoderLayer(96, 4, 192, dropout, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.linear = nn.Linear(96, num_classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        places = self.places.transpose(0, 1) if self.batch_first else self.places
        hidden = self.encoder(inputs + places)
        scores: torch.Tensor = self.linear(hidden.mean(1 if self.batch_first else 0))
        return scores
