"""Which tokens a trained drafter may propose for a request: a fixed draft vocabulary and the prompt's own.

What a phone shortens, corrects or answers mostly returns in the response, names above all, and a fixed
vocabulary of a few thousand tokens lacks many of them. Rows for the prompt's tokens cost a handful of rows a
request and nothing in storage: they are rows of a table that exists anyway.
It does not know which table (the target's for a head, its own for a standalone drafter).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone import greedy
from ..linear import linear, pack


def request_vocabulary(draft_ids: Tensor, prompt: Tensor | Sequence[int]) -> Tensor:
    """``draft_ids``, then the prompt's tokens that they lack, ascending; int64."""
    own = torch.as_tensor(prompt, dtype=torch.int64).unique()
    return torch.cat([draft_ids, own[~torch.isin(own, draft_ids)]])


class RequestHead:
    """LM head rows of one request: those of the draft vocabulary packed once, the prompt's own beside them.

    Parameters
    ----------
    table : Tensor, shape (vocab, width)
    draft_ids : Tensor of int64, shape (draft_vocab_size,)
    """

    def __init__(self, table: Tensor, draft_ids: Tensor) -> None:
        self._table, self._draft_ids = table, draft_ids
        self._fixed = pack(table[draft_ids])

    def start(self, prompt: Sequence[int]) -> None:
        """Take the tokens of this request's prompt in, those of the last one out."""
        self.ids = request_vocabulary(self._draft_ids, prompt)
        self._own = self._table[self.ids[len(self._draft_ids) :]]

    def logits(self, states: Tensor) -> Tensor:
        """Logits ``(..., vocabulary)``, column ``i`` for token ``ids[i]``."""
        return torch.cat([linear(states, self._fixed), F.linear(states, self._own)], dim=-1)

    def choose(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Most likely token (ties: the first of ``ids``) and its probability, over the last axis."""
        logits = self.logits(states)
        choice = greedy(logits)
        share = logits.softmax(-1, dtype=torch.float32).gather(-1, choice[..., None])[..., 0]
        return self.ids[choice], share
