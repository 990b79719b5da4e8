"""Random models of the domain `ai.onnx.ml`, one operator each: trees, linear models, support vectors, encoders, maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper

DOMAIN = "ai.onnx.ml"
FLOAT, INT64, STRING, DOUBLE, INT32 = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.STRING,
    TensorProto.DOUBLE,
    TensorProto.INT32,
)
KINDS = {"float32": FLOAT, "float64": DOUBLE, "int64": INT64, "int32": INT32, "object": STRING}
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
WORDS = ["", "ada", "bob", "cy", "Ada", "über"]
Array = np.ndarray[Any, Any]
Feeds = dict[str, Any]


class Case(NamedTuple):
    """A model and what it is run on."""

    name: str
    model: bytes
    feeds: Feeds
    tolerance: float
    """0 where every bit counts."""


def model(
    operator: str,
    opset: int,
    feeds: Feeds,
    results: list[int | Any],
    attributes: dict[str, Any],
) -> bytes:
    """Return a model of one node; results are element types, or whole types."""
    named = {key: value for key, value in attributes.items() if value is not None}
    outputs = [f"y{index}" for index in range(len(results))]
    node = helper.make_node(operator, list(feeds), outputs, domain=DOMAIN, name="it", **named)

    def described(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            keys, values = next(iter(value)), next(iter(value.values()))
            kinds = {int: INT64, str: STRING, float: FLOAT}
            inner = helper.make_tensor_type_proto(kinds[type(values)], [])
            return helper.make_value_info(name, helper.make_map_type_proto(kinds[type(keys)], inner))
        return helper.make_tensor_value_info(name, KINDS[str(value.dtype)], [None] * value.ndim)

    def made(name: str, kind: Any) -> Any:
        if isinstance(kind, int):
            return helper.make_tensor_value_info(name, kind, None)
        return helper.make_value_info(name, kind)

    graph = helper.make_graph(
        [node],
        "g",
        [described(name, value) for name, value in feeds.items()],
        [made(name, kind) for name, kind in zip(outputs, results, strict=True)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, opset)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


def floats(rng: np.random.Generator, *shape: int) -> Array:
    """Return numbers, some of them on steps that thresholds can be on."""
    values = rng.normal(size=shape) * 2
    steps = np.round(values * 2) / 2
    return np.where(rng.random(shape) < 0.5, values, steps).astype(np.float32)


def features(rng: np.random.Generator, rows: int, columns: int, kind: str, missing: bool) -> Array:
    """Return rows of features of a type."""
    x = floats(rng, rows, columns)
    if missing and kind.startswith("float"):
        x[rng.random(x.shape) < 0.2] = np.nan
    return (x * (3 if kind.startswith("int") else 1)).astype(kind)


def grown(rng: np.random.Generator, trees: int, depth: int, columns: int, modes: list[str]) -> dict[str, Any]:
    """Return the nodes of trees of different shapes, and the leaves of each as `leaves`."""
    listed: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves: list[tuple[int, int]] = []

    def grow(tree: int, level: int, numbers: Iterator[int]) -> int:
        number = next(numbers)
        place = len(listed["treeids"])
        leaf = level == depth or (level > 0 and rng.random() < 0.3)
        entry = [
            tree,
            number,
            0 if leaf else int(rng.integers(columns)),
            0.0 if leaf else float(floats(rng, 1)[0]),
            "LEAF" if leaf else modes[int(rng.integers(len(modes)))],
            0,
            0,
        ]
        for values, value in zip(listed.values(), entry, strict=True):
            values.append(value)
        if leaf:
            leaves.append((tree, number))
            return number
        listed["truenodeids"][place] = grow(tree, level + 1, numbers)
        listed["falsenodeids"][place] = grow(tree, level + 1, numbers)
        return number

    for tree in range(trees):
        grow(tree, 0, iter(range(1 << 20)))
    return {f"nodes_{name}": values for name, values in listed.items()} | {"leaves": leaves}


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def tensor(name: str, values: Any, kind: int = DOUBLE) -> Any:
    """Return a tensor for an attribute."""
    return helper.make_tensor(name, kind, [len(values)], values)


def forest(rng: np.random.Generator, classifier: bool) -> tuple[dict[str, Any], str, Array, int]:
    """Return the attributes of some trees, the prefix of what leaves say, the input and the operator set."""
    columns = int(rng.integers(1, 6))
    modes = MODES if rng.random() < 0.3 else [MODES[int(rng.integers(6))]] if rng.random() < 0.5 else MODES[:1]
    attributes = grown(rng, int(rng.integers(1, 20)), int(rng.integers(0, 6)), columns, modes)
    missing = rng.random() < 0.4
    if missing:
        count = len(attributes["nodes_treeids"])
        attributes["nodes_missing_value_tracks_true"] = [int(value) for value in rng.integers(0, 2, count)]
    kind = str(rng.choice(["float32", "float32", "float64"] + (["int64", "int32"] if classifier else [])))
    rows = int(rng.choice([0, 1, 2, 7, 8, 9, 30, 300]))
    return attributes, "class" if classifier else "target", features(rng, rows, columns, kind, missing), 3


def as_tensors(rng: np.random.Generator, attributes: dict[str, Any], kind: str, names: list[str]) -> dict[str, Any]:
    """Return the attributes with some as tensors of doubles, where the input is."""
    if kind != "float64" or rng.random() < 0.5:
        return attributes
    changed = dict(attributes)
    for name in names:
        if changed.get(name):
            changed[f"{name}_as_tensor"] = tensor(name, [value + 1e-9 for value in changed.pop(name)])
    return changed


def tree_classifier(rng: np.random.Generator) -> Case:
    """Draw a classifier whose scores say what ONNX Runtime's do: two classes have one that leaves speak of."""
    attributes, prefix, x, opset = forest(rng, True)
    leaves = attributes.pop("leaves")
    classes = int(rng.integers(2, 6))
    said = [(leaf, 0) for leaf in leaves] if classes == 2 else []
    if classes > 2:
        for leaf in leaves:
            said += [(leaf, target) for target in range(classes) if rng.random() < 0.6]
        said.append((leaves[0], 0))
    weights = floats(rng, len(said))
    if rng.random() < 0.5:
        weights = np.abs(weights) / 4
    attributes[f"{prefix}_treeids"] = [leaf[0] for leaf, _ in said]
    attributes[f"{prefix}_nodeids"] = [leaf[1] for leaf, _ in said]
    attributes[f"{prefix}_ids"] = [target for _, target in said]
    attributes[f"{prefix}_weights"] = weights.tolist()
    if classes > 2:
        attributes["base_values"] = floats(rng, classes).tolist()
    elif rng.random() < 0.4:
        attributes["base_values"] = floats(rng, 1).tolist()
    if rng.random() < 0.3:
        attributes["classlabels_strings"] = [f"class {index}" for index in range(classes)]
    else:
        attributes["classlabels_int64s"] = [int(label) for label in rng.permutation(20)[:classes] - 5]
    choices = POST_TRANSFORMS if classes > 2 else POST_TRANSFORMS[:4]
    attributes["post_transform"] = str(rng.choice(choices))
    attributes = as_tensors(rng, attributes, str(x.dtype), ["nodes_values", "base_values", f"{prefix}_weights"])
    results = [STRING if "classlabels_strings" in attributes else INT64, FLOAT]
    by = attributes["post_transform"]
    # The inverse of the error function is the difference of two that are nearly equal.
    tolerance = {"NONE": 0, "PROBIT": 5e-3}.get(by, 2e-5)
    feeds = {"x": x}
    made = model("TreeEnsembleClassifier", opset, feeds, results, attributes)
    return Case("TreeEnsembleClassifier", made, feeds, tolerance)


def tree_regressor(rng: np.random.Generator) -> Case:
    """Draw a regressor."""
    attributes, prefix, x, opset = forest(rng, False)
    leaves = attributes.pop("leaves")
    targets = int(rng.choice([1, 1, 2, 4]))
    said = [(leaf, int(rng.integers(targets))) for leaf in leaves]
    attributes[f"{prefix}_treeids"] = [leaf[0] for leaf, _ in said]
    attributes[f"{prefix}_nodeids"] = [leaf[1] for leaf, _ in said]
    attributes[f"{prefix}_ids"] = [target for _, target in said]
    attributes[f"{prefix}_weights"] = floats(rng, len(said)).tolist()
    attributes["n_targets"] = targets
    attributes["aggregate_function"] = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
    if rng.random() < 0.5:
        attributes["base_values"] = floats(rng, targets).tolist()
    attributes["post_transform"] = str(rng.choice(POST_TRANSFORMS if targets > 1 else POST_TRANSFORMS[:4]))
    attributes = as_tensors(rng, attributes, str(x.dtype), ["nodes_values", "base_values", f"{prefix}_weights"])
    by = attributes["post_transform"]
    tolerance = 0 if targets == 1 else {"NONE": 0, "PROBIT": 5e-3}.get(by, 2e-5)
    feeds = {"x": x}
    made = model("TreeEnsembleRegressor", opset, feeds, [FLOAT], attributes)
    return Case("TreeEnsembleRegressor", made, feeds, tolerance)


def tree_ensemble(rng: np.random.Generator) -> Case:
    """Draw trees as the fifth operator set has them."""
    columns, targets = int(rng.integers(1, 6)), int(rng.choice([1, 2, 3]))
    kind = str(rng.choice(["float32", "float64"]))
    member = rng.random() < 0.4
    listed: dict[str, list[Any]] = {
        name: [] for name in ("featureids", "modes", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    }
    weights: list[float] = []
    sets: list[float] = []
    roots: list[int] = []
    mode = int(rng.integers(6))

    def leaf() -> int:
        weights.append(float(floats(rng, 1)[0]))
        return len(weights) - 1

    def split(level: int) -> int:
        place = len(listed["modes"])
        own = 6 if member and rng.random() < 0.4 else mode if rng.random() < 0.7 else int(rng.integers(6))
        entry = [int(rng.integers(columns)), own, float(floats(rng, 1)[0]), 0, 0, 0, 0]
        if own == 6:
            sets.extend([float(value) for value in rng.integers(0, 6, int(rng.integers(1, 5)))] + [np.nan])
        for values, value in zip(listed.values(), entry, strict=True):
            values.append(value)
        for side in ("true", "false"):
            end = level > 3 or rng.random() < 0.3
            below = leaf() if end else split(level + 1)
            listed[f"{side}nodeids"][place], listed[f"{side}leafs"][place] = below, int(end)
        return place

    for _ in range(int(rng.integers(1, 12))):
        roots.append(split(0))
    number = KINDS[kind]
    attributes: dict[str, Any] = {f"nodes_{name}": listed[name] for name in listed if name not in ("modes", "splits")}
    attributes["nodes_modes"] = helper.make_tensor("modes", TensorProto.UINT8, [len(listed["modes"])], listed["modes"])
    attributes["nodes_splits"] = tensor("splits", listed["splits"], number)
    attributes["leaf_weights"] = tensor("weights", weights, number)
    attributes["leaf_targetids"] = [int(value) for value in rng.integers(0, targets, len(weights))]
    attributes["tree_roots"] = roots
    attributes["n_targets"] = targets
    attributes["aggregate_function"] = int(rng.integers(4))
    # ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX, which ONNX has the other way round.
    attributes["post_transform"] = int(rng.choice([0, 3] if targets > 1 else [0, 1, 2, 3]))
    if sets:
        attributes["membership_values"] = tensor("sets", sets, number)
    missing = rng.random() < 0.3
    if missing:
        attributes["nodes_missing_value_tracks_true"] = [int(v) for v in rng.integers(0, 2, len(listed["modes"]))]
    x = features(rng, int(rng.choice([1, 3, 8, 40])), columns, kind, missing)
    x = np.where(rng.random(x.shape) < 0.3, np.abs(np.round(x)), x).astype(kind)
    exact = attributes["post_transform"] == 0 or targets == 1
    made = model("TreeEnsemble", 5, {"x": x}, [number], attributes)
    return Case("TreeEnsemble", made, {"x": x}, 0 if exact else 2e-5)


def linear_classifier(rng: np.random.Generator) -> Case:
    """Draw a linear classifier."""
    columns, targets = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    kind = str(rng.choice(["float32", "float64", "int64", "int32"]))
    x = features(rng, int(rng.choice([1, 5, 33])), columns, kind, False)
    labels = 2 if targets == 1 else targets
    strings = rng.random() < 0.4
    attributes = {
        "coefficients": floats(rng, targets * columns).tolist(),
        "intercepts": floats(rng, targets).tolist(),
        "multi_class": int(rng.integers(2)),
        "post_transform": str(rng.choice(POST_TRANSFORMS if targets > 1 else POST_TRANSFORMS[:4])),
        "classlabels_strings": [f"c{index}" for index in range(labels)] if strings else None,
        "classlabels_ints": None if strings else [int(label) for label in rng.permutation(9)[:labels]],
    }
    made = model("LinearClassifier", 1, {"x": x}, [STRING if strings else INT64, FLOAT], attributes)
    return Case("LinearClassifier", made, {"x": x}, 2e-5)


def linear_regressor(rng: np.random.Generator) -> Case:
    """Draw a linear model."""
    columns, targets = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    x = features(rng, int(rng.choice([1, 5, 33])), columns, "float32", False)
    attributes = {
        "coefficients": floats(rng, targets * columns).tolist(),
        "intercepts": floats(rng, targets).tolist() if rng.random() < 0.7 else None,
        "targets": targets,
        "post_transform": str(rng.choice(POST_TRANSFORMS[:4])),
    }
    return Case("LinearRegressor", model("LinearRegressor", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 2e-5)


def support_vectors(rng: np.random.Generator, x: Array, count: int) -> dict[str, Any]:
    """Return what support vectors have in common."""
    return {
        "kernel_type": str(rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"])),
        "kernel_params": [0.25, 0.5, float(rng.choice([2.0, 3.0]))],
        "support_vectors": floats(rng, count * x.shape[1]).tolist(),
    }


def svm_regressor(rng: np.random.Generator) -> Case:
    """Draw a regressor by support vectors, or a linear one."""
    x = features(rng, int(rng.choice([1, 4, 70])), int(rng.integers(1, 6)), "float32", False)
    count = int(rng.choice([0, 1, 5, 20]))
    attributes = support_vectors(rng, x, count) | {
        "coefficients": floats(rng, count or x.shape[1]).tolist(),
        "rho": floats(rng, 1).tolist(),
        "n_supports": count,
        "one_class": int(rng.integers(2)),
    }
    if count == 0:
        del attributes["support_vectors"]
    return Case("SVMRegressor", model("SVMRegressor", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 1e-4)


def svm_classifier(rng: np.random.Generator) -> Case:
    """Draw a classifier by support vectors, or a linear one."""
    kind = str(rng.choice(["float32", "float64", "int64"]))
    x = features(rng, int(rng.choice([1, 4, 70])), int(rng.integers(1, 6)), kind, False)
    classes = int(rng.integers(2, 5))
    strings = rng.random() < 0.4
    pairs = classes * (classes - 1) // 2
    linear = rng.random() < 0.2
    per_class = [int(value) for value in rng.integers(1, 5, classes)]
    attributes = support_vectors(rng, x, sum(per_class)) | {
        "rho": floats(rng, pairs).tolist(),
        "post_transform": str(rng.choice(POST_TRANSFORMS[:4])),
        "classlabels_strings": [f"c{index}" for index in range(classes)] if strings else None,
        "classlabels_ints": None if strings else [int(label) for label in rng.permutation(9)[:classes]],
    }
    if linear:
        del attributes["support_vectors"]
        attributes["coefficients"] = floats(rng, classes * x.shape[1]).tolist()
    else:
        attributes["vectors_per_class"] = per_class
        attributes["coefficients"] = floats(rng, (classes - 1) * sum(per_class)).tolist()
        if rng.random() < 0.5:
            attributes["prob_a"] = (-np.abs(floats(rng, pairs))).tolist()
            attributes["prob_b"] = floats(rng, pairs).tolist()
    made = model("SVMClassifier", 1, {"x": x}, [STRING if strings else INT64, FLOAT], attributes)
    return Case("SVMClassifier", made, {"x": x}, 1e-4)


def scaler(rng: np.random.Generator) -> Case:
    """Draw a scaler."""
    x = features(rng, 4, 3, str(rng.choice(["float32", "float64", "int64", "int32"])), False)
    x = x[0] if rng.random() < 0.2 else x
    count = int(rng.choice([1, 3]))
    attributes = {"scale": floats(rng, count).tolist(), "offset": floats(rng, count).tolist()}
    return Case("Scaler", model("Scaler", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 0)


def normalizer(rng: np.random.Generator) -> Case:
    """Draw a normalizer, some rows of it zeros."""
    x = features(rng, 5, 4, str(rng.choice(["float32", "float64", "int64", "int32"])), False)
    x[1] = 0
    x = x[int(rng.integers(2))] if rng.random() < 0.2 else x
    attributes = {"norm": str(rng.choice(["MAX", "L1", "L2"]))}
    return Case("Normalizer", model("Normalizer", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 1e-6)


def imputer(rng: np.random.Generator) -> Case:
    """Draw an imputer."""
    real = rng.random() < 0.5
    count = int(rng.choice([1, 3]))
    x = features(rng, 6, 3, "float32" if real else "int64", real)
    if real:
        replaced = float(rng.choice([np.nan, 0.5]))
        attributes = {"imputed_value_floats": floats(rng, count).tolist(), "replaced_value_float": replaced}
    else:
        values = [int(value) for value in rng.integers(-9, 9, count)]
        attributes = {"imputed_value_int64s": values, "replaced_value_int64": int(x[0, 0])}
    return Case("Imputer", model("Imputer", 1, {"x": x}, [KINDS[str(x.dtype)]], attributes), {"x": x}, 0)


def binarizer(rng: np.random.Generator) -> Case:
    """Draw a binarizer."""
    x = features(rng, 3, 4, "float32", False)
    attributes = {"threshold": 0.5} if rng.random() < 0.7 else {}
    return Case("Binarizer", model("Binarizer", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 0)


def array_feature_extractor(rng: np.random.Generator) -> Case:
    """Draw columns of numbers or strings."""
    shape = [(5,), (3, 5), (2, 3, 5)][int(rng.integers(3))]
    if rng.random() < 0.3:
        x = rng.choice(WORDS, shape).astype(object)
    else:
        x = (floats(rng, *shape) * 9).astype(str(rng.choice(["float32", "float64", "int64", "int32"])))
    y = rng.integers(0, 5, (1, int(rng.integers(1, 4))))
    feeds = {"x": x, "y": y}
    return Case("ArrayFeatureExtractor", model("ArrayFeatureExtractor", 1, feeds, [KINDS[str(x.dtype)]], {}), feeds, 0)


def feature_vectorizer(rng: np.random.Generator) -> Case:
    """Draw columns side by side."""
    kind = str(rng.choice(["float32", "float64", "int64", "int32"]))
    widths = [int(width) for width in rng.integers(1, 5, int(rng.integers(1, 4)))]
    feeds = {f"x{index}": features(rng, 3, width, kind, False) for index, width in enumerate(widths)}
    dims = [width + int(rng.integers(-1, 3)) if width > 1 else width for width in widths]
    return Case("FeatureVectorizer", model("FeatureVectorizer", 1, feeds, [FLOAT], {"inputdimensions": dims}), feeds, 0)


def drawn(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Return elements of few different values."""
    if kind == "strings":
        return rng.choice(WORDS, shape).astype(object)
    values = rng.integers(-2, 4, shape)
    if kind == "floats":
        reals = values.astype(np.float32) / 2
        return np.where(rng.random(shape) < 0.1, np.float32(np.nan), reals).astype(np.float32)
    return values


def keys(rng: np.random.Generator, kind: str, count: int) -> list[Any]:
    """Return keys or values of a kind."""
    if kind == "strings":
        return [str(word) for word in rng.permutation(WORDS)[:count]]
    if kind == "floats":
        return [float(value) for value in rng.permutation([-1.0, -0.5, 0.0, 0.5, 1.0, np.nan])[:count]]
    return [int(value) for value in rng.permutation(6)[:count] - 2]


RESULTS = {"strings": STRING, "int64s": INT64, "floats": FLOAT}


def label_encoder(rng: np.random.Generator) -> Case:
    """Draw an encoder of any version."""
    version = int(rng.choice([1, 2, 4]))
    shape = [(4,), (3, 2)][int(rng.integers(2))]
    if version == 1:
        strings = rng.random() < 0.5
        x = drawn(rng, "strings" if strings else "int64s", shape)
        attributes: dict[str, Any] = {"classes_strings": WORDS[1:4], "default_int64": -7, "default_string": "none"}
        return Case(
            "LabelEncoder-1",
            model("LabelEncoder", 1, {"x": x}, [INT64 if strings else STRING], attributes),
            {"x": x},
            0,
        )
    pairs = [
        ("strings", "int64s"),
        ("strings", "floats"),
        ("int64s", "strings"),
        ("int64s", "floats"),
        ("floats", "strings"),
        ("floats", "int64s"),
    ]
    pairs += [("int64s", "int64s"), ("floats", "floats"), ("strings", "strings")]
    from_kind, to_kind = pairs[int(rng.integers(len(pairs)))]
    count = int(rng.integers(1, 5))
    x = drawn(rng, from_kind, shape)
    own, values = keys(rng, from_kind, count), keys(rng, to_kind, count)
    if version == 2:
        # NaN is no key before the fourth operator set.
        x = np.nan_to_num(x) if from_kind == "floats" else x
        own = [-3.0 if key != key else key for key in own]
    attributes = {f"keys_{from_kind}": own, f"values_{to_kind}": values}
    default = {"strings": "rest", "int64s": 99, "floats": 0.75}[to_kind]
    if rng.random() < 0.6:
        attributes[f"default_{to_kind.removesuffix('s')}"] = default
    return Case(
        f"LabelEncoder-{version}", model("LabelEncoder", version, {"x": x}, [RESULTS[to_kind]], attributes), {"x": x}, 0
    )


def label_encoder_of_tensors(rng: np.random.Generator) -> Case:
    """Draw an encoder whose table is of tensors."""
    kinds = [(DOUBLE, "float64"), (INT64, "int64"), (STRING, "object"), (FLOAT, "float32")]
    pairs = [(0, 0), (0, 2), (2, 0), (1, 1), (2, 2), (3, 3)]
    a, b = pairs[int(rng.integers(len(pairs)))]
    (from_kind, dtype), (to_kind, _) = kinds[a], kinds[b]

    def elements(kind: int) -> list[Any]:
        return WORDS[:4] if kind == STRING else [0, 1, 2, 3] if kind == INT64 else [0.5, 1.0, -0.0, 2.5]

    x = rng.choice(np.array([*elements(from_kind), elements(from_kind)[0]], dtype), (5,))
    x[0] = "other" if from_kind == STRING else 7
    attributes = {
        "keys_tensor": helper.make_tensor("k", from_kind, [4], elements(from_kind)),
        "values_tensor": helper.make_tensor("v", to_kind, [4], elements(to_kind)[::-1]),
        "default_tensor": helper.make_tensor("d", to_kind, [1], elements(to_kind)[:1]),
    }
    return Case("LabelEncoder-4 tensors", model("LabelEncoder", 4, {"x": x}, [to_kind], attributes), {"x": x}, 0)


def category_mapper(rng: np.random.Generator) -> Case:
    """Draw a mapper either way."""
    strings = rng.random() < 0.5
    x = drawn(rng, "strings" if strings else "int64s", (2, 3))
    attributes = {"cats_strings": WORDS[1:5], "cats_int64s": [3, 1, -2, 0], "default_int64": -9, "default_string": "-"}
    return Case(
        "CategoryMapper", model("CategoryMapper", 1, {"x": x}, [INT64 if strings else STRING], attributes), {"x": x}, 0
    )


def one_hot_encoder(rng: np.random.Generator) -> Case:
    """Draw an encoder; what has no category is an error now and then."""
    strings = rng.random() < 0.5
    x = drawn(rng, "strings" if strings else "int64s", [(4,), (3, 2)][int(rng.integers(2))])
    if not strings:
        x = x.astype(str(rng.choice(["int64", "float32", "float64"])))
    attributes: dict[str, Any] = {"zeros": int(rng.random() < 0.7)}
    attributes["cats_strings" if strings else "cats_int64s"] = keys(rng, "strings" if strings else "int64s", 5)
    return Case("OneHotEncoder", model("OneHotEncoder", 1, {"x": x}, [FLOAT], attributes), {"x": x}, 0)


def zip_map(rng: np.random.Generator) -> Case:
    """Draw a list of maps."""
    strings = rng.random() < 0.5
    x = floats(rng, 3, 4) if rng.random() < 0.8 else floats(rng, 4)
    attributes = {
        "classlabels_strings" if strings else "classlabels_int64s": keys(rng, "strings" if strings else "int64s", 4)
    }
    inner = helper.make_tensor_type_proto(FLOAT, [])
    made = helper.make_sequence_type_proto(helper.make_map_type_proto(STRING if strings else INT64, inner))
    return Case("ZipMap", model("ZipMap", 1, {"x": x}, [made], attributes), {"x": x}, 0)


def mapped(rng: np.random.Generator, strings: bool, values: str) -> dict[Any, Any]:
    """Return a map."""
    count = int(rng.integers(1, 5))
    words = {
        "texts": [str(word) for word in rng.choice(["1", "-2", "37"], count)],
        "floats": floats(rng, count).tolist(),
    }
    integers = [int(value) for value in rng.integers(-5, 9, count)]
    found = {"int64s": integers} | words
    names = (
        [str(word) for word in rng.permutation(WORDS)[:count]]
        if strings
        else [int(key) for key in rng.permutation(6)[:count]]
    )
    return dict(zip(names, found[values], strict=True))


def dict_vectorizer(rng: np.random.Generator) -> Case:
    """Draw a row of a map."""
    strings = rng.random() < 0.5
    values = "floats" if not strings or rng.random() < 0.5 else "int64s"
    x = mapped(rng, strings, values)
    attributes = {
        "string_vocabulary" if strings else "int64_vocabulary": keys(rng, "strings" if strings else "int64s", 5)
    }
    kind = FLOAT if values == "floats" else INT64
    return Case("DictVectorizer", model("DictVectorizer", 1, {"x": x}, [kind], attributes), {"x": x}, 0)


def cast_map(rng: np.random.Generator) -> Case:
    """Draw a row of a map, cast."""
    x = mapped(rng, False, str(rng.choice(["floats", "texts"])))
    to = str(rng.choice(["TO_FLOAT", "TO_INT64", "TO_STRING"]))
    attributes = {"cast_to": to, "map_form": str(rng.choice(["DENSE", "SPARSE"])), "max_map": 7}
    kind = {"TO_FLOAT": FLOAT, "TO_INT64": INT64, "TO_STRING": STRING}[to]
    return Case("CastMap", model("CastMap", 1, {"x": x}, [kind], attributes), {"x": x}, 0)


RECIPES: dict[Callable[[np.random.Generator], Case], int] = {
    tree_classifier: 160,
    tree_regressor: 120,
    tree_ensemble: 80,
    linear_classifier: 40,
    linear_regressor: 20,
    svm_regressor: 30,
    svm_classifier: 60,
    scaler: 12,
    normalizer: 20,
    imputer: 12,
    binarizer: 4,
    array_feature_extractor: 12,
    feature_vectorizer: 8,
    label_encoder: 50,
    label_encoder_of_tensors: 12,
    category_mapper: 6,
    one_hot_encoder: 16,
    zip_map: 8,
    dict_vectorizer: 10,
    cast_map: 16,
}


def cases(seed: int = 0, times: int = 1) -> Iterator[Case]:
    """Draw every recipe as often as it says, times so much."""
    for recipe, count in RECIPES.items():
        for turn in range(count * times):
            yield recipe(np.random.default_rng([seed, turn, len(recipe.__name__)]))
