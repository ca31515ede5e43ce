"""Text for language models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from raycipe.components.data._splits import check_shares
from raycipe.framework.arguments import Fraction, InputFile, Width
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class TextFile(Data):
    """Text as windows of tokens, characters or bytes, for language models; by default the Python manual's own words.

    An example is x = tokens[s : s + context], y = tokens[s + 1 : s + context + 1], at every `stride`-th s. The text is
    cut once, in order: the training part first, then val, then test, so that no window reaches into another part.
    Without a path the text is the topics of Python's `help()`, about 460,000 characters that come with Python (and
    differ a little between its versions). Its last twentieth repeats passages: prefer its val part to its test part.

    Args:
        path: a UTF-8 text file (any file for bytes); relative to the recipe; null takes Python's help topics
        level: a token is a character (the vocabulary is every character of the text) or a byte (256 of them)
        context: length of x, in tokens
        stride: tokens from one example's start to the next; null takes context, so that each token is predicted once
        val: share of the text held out for choosing, from behind the training part; 0 for no such split
        test: share of the text held out for the final figure, from its end; 0 for no such split

    Recipe:
        data: {type: text_file, context: 32}
        model: char_transformer
        task: language_modeling
        optimizer: {type: adamw, lr: 1e-3}
    """

    def __init__(
        self,
        path: Annotated[str, InputFile()] | None = None,
        level: Literal["characters", "bytes"] = "characters",
        context: Width = 64,
        stride: Width | None = None,
        val: Fraction = 0.05,
        test: Fraction = 0.05,
    ) -> None:
        check_shares(val, test)
        self.path = path
        self.level = level
        self.context = context
        self.stride = stride
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        raw = self._read()
        tokens, symbols = _characters(raw) if self.level == "characters" else _bytes(raw)
        self.facts = {
            "vocab_size": max(2, len(symbols)),
            "context_length": self.context,
            "input_shape": [self.context],
            "symbols": symbols,
        }
        count = len(tokens)
        num_val, num_test = int(self.val * count), int(self.test * count)
        ends = {"train": count - num_val - num_test, "val": count - num_test, "test": count}
        starts = {"train": 0, "val": ends["train"], "test": ends["val"]}
        wanted = ["train", *(name for name in ("val", "test") if getattr(self, name))]
        return {name: self._windows(tokens[starts[name] : ends[name]], name) for name in wanted}

    def _windows(self, tokens: torch.Tensor, name: str) -> TensorSplit:
        if len(tokens) <= self.context:
            larger = "lower data.val or data.test" if name == "train" else f"raise data.{name}"
            raise RunError(
                "data",
                f"{self.path or 'the text'}: the {name} part has {len(tokens)} tokens, too few for one window of "
                f"context + 1 = {self.context + 1}",
                f"lower data.context, {larger}, or bring a longer text",
                where="data.context",
            )
        stride = self.stride or self.context
        windows = tokens.unfold(0, self.context + 1, stride)  # (examples, context + 1), a view
        return TensorSplit({"x": windows[:, :-1], "y": windows[:, 1:]})

    def _read(self) -> bytes:
        if self.path is None:
            return help_topics().encode()
        try:
            raw = Path(self.path).read_bytes()
        except OSError as error:
            hint = "a path is relative to the recipe's file"
            raise RunError("data", f"{self.path}: {error.strerror}", hint, where="data.path") from error
        if not raw:
            raise RunError("data", f"{self.path}: the file is empty", where="data.path")
        return self._checked(raw)

    def _checked(self, raw: bytes) -> bytes:
        """Raise RunError naming line and byte where characters are wanted and the text is not UTF-8."""
        if self.level == "characters":
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                line = raw.count(b"\n", 0, error.start) + 1
                message = f"{self.path}: line {line}: byte 0x{raw[error.start]:02x} is not UTF-8"
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    message = f"{self.path}: is UTF-16, not UTF-8"
                hint = "convert the text to UTF-8, or set data.level: bytes"
                raise RunError("data", message, hint, where="data.path") from error
        return raw


def help_topics() -> str:
    """The texts of Python's `help()` topics, in the order of their names."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        hint = "install Python's standard library in full, or set data.path to a text of your own"
        raise RunError("data", "this Python comes without its help topics", hint, where="data.path") from error
    return "\n".join(topics[name] for name in sorted(topics))


def _characters(raw: bytes) -> tuple[torch.Tensor, list[str]]:
    """Tokens (n,) int64 and the characters that they number, in order of code point."""
    points = np.frombuffer(raw.decode().encode("utf-32-le"), dtype=np.uint32)
    distinct, tokens = np.unique(points, return_inverse=True)
    return torch.from_numpy(tokens.astype(np.int64)), [chr(point) for point in distinct.tolist()]


def _bytes(raw: bytes) -> tuple[torch.Tensor, list[Any]]:
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8).astype(np.int64)), list(range(256))
