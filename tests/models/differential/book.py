"""How each operator's operands and attributes are drawn: a recipe per family, for all versions of its operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drawing import Array, Recipe

RECIPES: dict[str, Recipe] = {}

# What is not drawn, and why.
NOT_DRAWN = {
    "ImageDecoder": "decodes files of pictures",
    "RegexFullMatch": "regular expressions over strings",
    "StringConcat": "strings",
    "StringNormalizer": "strings and locales",
    "StringSplit": "strings",
}
DOMAINS_NOT_DRAWN = {
    "ai.onnx.ml": "models/learning_cases.py draws trees and encoders of classical learning",
    "ai.onnx.preview.training": "training",
    "ai.onnx.preview": "operators that ONNX has not settled",
}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """Register a recipe under these operators."""

    def register(function: Recipe) -> Recipe:
        for operator in operators:
            assert operator not in RECIPES, operator
            RECIPES[operator] = function
        return function

    return register


def ints(*values: int) -> Array:
    """Return them as int64."""
    return np.array(values, np.int64)
