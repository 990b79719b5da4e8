"""The domain `ai.onnx.ml` beside ONNX Runtime: random models of each operator, and what is said of those that are wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from beside import load

import triune

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

learning = load(__file__, "learning_cases")
Array = np.ndarray[Any, Any]


def peer(case: Any) -> list[Any] | None:
    """Return what ONNX Runtime makes of a case with one thread, whose sums go tree by tree; None where it refuses."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, case.feeds))
    except Exception:
        return None


def same(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether results are alike."""
    if isinstance(expected, list):
        return bool(got == expected)
    if got.shape != expected.shape:
        return False
    if expected.dtype == object:
        return bool((got == expected).all())
    if got.dtype != expected.dtype:
        return False
    if tolerance == 0:
        return bool(np.array_equal(got, expected, equal_nan=got.dtype.kind == "f"))
    return bool(np.allclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def test_random_models_give_what_onnx_runtime_gives() -> None:
    compared: Counter[str] = Counter()
    for index, case in enumerate(learning.cases()):
        expected = peer(case)
        try:
            got = triune.Session(case.model, threads=1).run(case.feeds)
        except triune.errors.Error as error:
            if expected is not None:
                pytest.fail(f"{index} {case.name}: {error}")
            continue
        if expected is None:
            continue
        compared[case.name] += 1
        for one, other in zip(got, expected, strict=True):
            assert same(one, other, case.tolerance), f"{index} {case.name}:\n{one}\n{other}"
    assert sum(compared.values()) > 600, compared
    assert len(compared) == 22, compared


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    for recipe in (learning.tree_classifier, learning.tree_regressor, learning.svm_classifier):
        for _ in range(6):
            case = recipe(rng)
            name, x = next(iter(case.feeds.items()))
            feeds = {name: np.concatenate([x] * 40)} if len(x) else case.feeds
            one, many = (triune.Session(case.model, threads=threads).run(feeds) for threads in (1, 3))
            for a, b in zip(one, many, strict=True):
                np.testing.assert_array_equal(a, b)


def tree(**changes: Any) -> dict[str, Any]:
    """Return a classifier's attributes: a split over two leaves, with changes."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [0, 2],
        "class_weights": [0.25, 0.75],
        "classlabels_int64s": [10, 20, 30],
    }
    return attributes | changes


def classifier(x: Array, **changes: Any) -> Any:
    results = [learning.STRING if changes.get("classlabels_strings") else learning.INT64, learning.FLOAT]
    made = learning.model("TreeEnsembleClassifier", 3, {"x": x}, results, tree(**changes))
    return triune.Session(made)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_values": [0.5]}, "'nodes_values' has 1 elements; 3 are expected"),
        ({"nodes_truenodeids": [7, 0, 0]}, "'nodes_truenodeids', element 0: tree 0 has no node 7"),
        ({"nodes_falsenodeids": [0, 0, 0]}, "node 0 of tree 0 is its own ancestor"),
        ({"nodes_truenodeids": [0, 0, 0]}, "node 0 of tree 0 is its own ancestor"),
        ({"nodes_values": [float("nan"), 0, 0]}, "'nodes_values', element 0: NaN"),
        ({"nodes_featureids": [-1, 0, 0]}, "'nodes_featureids', element 0: -1 is no feature"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "TWIG"]}, "'nodes_modes', element 2: 'TWIG' is no mode"),
        ({"nodes_nodeids": [0, 1, 1]}, "'nodes_nodeids', element 2: tree 0 has a node 1 already"),
        ({"class_ids": [0, 3]}, "'class_ids', element 1: 3 is none of 3"),
        ({"class_nodeids": [1, 9]}, "'class_nodeids', element 1: tree 0 has no node 9"),
        ({"class_weights": [1.0]}, "'class_weights' has 1 elements; 2 are expected"),
        ({"base_values": [1.0]}, "'base_values' has 1 elements; none or 3 are expected"),
        ({"classlabels_int64s": None}, "'classlabels_int64s' and 'classlabels_strings' are missing"),
        ({"nodes_treeids": None}, "'nodes_treeids' is missing"),
        ({"post_transform": "CUBE"}, "'post_transform' = 'CUBE'"),
        ({"nodes_missing_value_tracks_true": [1]}, "'nodes_missing_value_tracks_true' has 1 elements"),
    ],
)
def test_trees_that_are_none_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(triune.errors.UnsupportedError) as raised:
        classifier(np.zeros((1, 2), np.float32), **changes)
    assert "node 'it' (TreeEnsembleClassifier)" in str(raised.value)
    assert words in str(raised.value)


def test_features_beyond_the_columns_are_refused() -> None:
    x = np.zeros((2, 1), np.float32)
    with pytest.raises(triune.errors.Error, match="'nodes_featureids' names feature 1, and the input has 1 columns"):
        classifier(x).run({"x": x})


def test_labels_are_those_of_the_largest_score() -> None:
    x = np.float32([[0, 0], [0, 1]])
    labels, scores = classifier(x).run({"x": x})
    assert labels.tolist() == [10, 30]
    np.testing.assert_array_equal(scores, np.float32([[0.25, 0, 0], [0, 0, 0.75]]))
    # Of two classes, too, where leaves speak of both; ONNX Runtime says 1 or 0 there, whatever the labels are.
    labels, _ = classifier(x, class_ids=[0, 1], classlabels_int64s=[10, 20]).run({"x": x})
    assert labels.tolist() == [10, 20]
    labels, _ = classifier(x, classlabels_int64s=None, classlabels_strings=["a", "b", "c"]).run({"x": x})
    assert labels.tolist() == ["a", "c"]


def test_no_rows_are_no_results() -> None:
    labels, scores = classifier(np.zeros((0, 2), np.float32)).run({"x": np.zeros((0, 2), np.float32)})
    assert (labels.shape, scores.shape) == ((0,), (0, 3))


def test_runs_count_against_the_limit_of_work() -> None:
    x = np.zeros((100_000, 2), np.float32)
    session = classifier(x)
    before = triune.work_limit()
    triune.set_work_limit(100)
    try:
        with pytest.raises(triune.errors.Error, match="200000 steps through trees, more than the 100"):
            session.run({"x": x})
    finally:
        triune.set_work_limit(before)


def test_maps_are_dicts_at_the_border_and_nowhere_else() -> None:
    helper = onnx.helper
    inner = helper.make_tensor_type_proto(learning.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(learning.INT64, inner))
    zipped = helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[4, 2], name="zip")
    info = helper.make_tensor_value_info("x", 1, [None, None])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]

    def session(nodes: list[Any], output: Any) -> Any:
        graph = helper.make_graph(nodes, "g", [info], [output])
        return triune.Session(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())

    again = helper.make_node("Identity", ["maps"], ["again"])
    run = session([zipped, again], helper.make_value_info("again", maps))
    assert [info.kind for info in run.outputs] == ["sequence of maps"]
    x = np.float32([[1, 2], [3, 4]])
    assert run.run({"x": x})[0] == [{4: 1.0, 2: 2.0}, {4: 3.0, 2: 4.0}]
    with pytest.raises(triune.errors.Error, match=r"'zip' \(ZipMap\): values \[2, 1\] for 2 keys"):
        session([zipped], helper.make_value_info("maps", maps)).run({"x": x[:, :1]})
    length = helper.make_node("SequenceLength", ["maps"], ["n"], name="count")
    with pytest.raises(
        triune.errors.UnsupportedError, match=r"'count' \(SequenceLength\): input 0 is a sequence of maps, which only"
    ):
        session([zipped, length], helper.make_tensor_value_info("n", 7, []))


def test_maps_that_are_given_are_checked() -> None:
    case = learning.dict_vectorizer(np.random.default_rng(0))
    session = triune.Session(case.model)
    assert [info.kind for info in session.inputs] == ["map"]
    (key,) = list(case.feeds["x"])[:1]
    wrong = {"a": 1.0} if isinstance(key, int) else {3: 1.0}
    for given, words in (
        (3, "expected a dict, got int"),
        (wrong, "expected keys of"),
        ({key: "x"}, "expected values of"),
    ):
        with pytest.raises(triune.errors.ArgumentError, match=words):
            session.run({"x": given})


def test_onnx_s_own_interface_takes_maps_and_nodes_of_the_domain() -> None:
    """Maps go through `prepare`, and a node is run in the newest version of its own domain."""
    from onnx import TensorProto, helper

    from triune.onnx import backend

    entries = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["d"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    graph = helper.make_graph([node], "g", [helper.make_value_info("d", entries)], [result])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    prepared = backend.prepare(helper.make_model(graph, opset_imports=imports, ir_version=8))
    for given in ({"d": {"b": 2.0}}, [{"b": 2.0}]):
        assert prepared.run(given)[0].tolist() == [[0, 2]]
    assert backend.run_node(node, [{"a": 1.0}])[0].tolist() == [[1, 0]]
    encoder = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[3])
    assert backend.run_node(encoder, [np.array(["a", "c"])])[0].tolist() == [3, -1]
    # It is deprecated in the newest set.
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_treeids=[0],
        nodes_nodeids=[0],
        nodes_featureids=[0],
        nodes_values=[0.0],
        nodes_modes=["LEAF"],
        nodes_truenodeids=[0],
        nodes_falsenodeids=[0],
        target_treeids=[0],
        target_nodeids=[0],
        target_ids=[0],
        target_weights=[2.0],
    )
    assert backend.run_node(trees, [np.zeros((2, 1), np.float32)])[0].tolist() == [[2], [2]]
    sequence = helper.make_node("SequenceLength", ["x"], ["y"])
    assert backend.run_node(sequence, [[np.zeros(2, np.float32)] * 3])[0] == 3
    with pytest.raises(triune.errors.ArgumentError, match="input 'd': expected an array, a list of arrays or a dict"):
        backend.run_node(node, [{}])


def test_half_a_pair_of_surrogates_in_a_map_is_named() -> None:
    entries = onnx.helper.make_map_type_proto(
        onnx.TensorProto.STRING, onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, [])
    )
    node = onnx.helper.make_node("DictVectorizer", ["d"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [1, 2])
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_value_info("d", entries)], [result])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    session = triune.Session(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    for given, what in (({"\ud800": "a"}, "keys"), ({"a": "\udfff"}, "values")):
        with pytest.raises(
            triune.errors.ArgumentError, match=f"input 'd': expected {what} of Unicode, got '.* with half"
        ):
            session.run({"d": given})  # type: ignore[dict-item]
