"""Models that scikit-learn, LightGBM and XGBoost learn, as their converters write them, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triune

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")

from sklearn import cluster, compose, ensemble, linear_model, pipeline, preprocessing, svm  # noqa: E402
from sklearn.datasets import make_classification, make_regression  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

OPSETS = {"": 17, "ai.onnx.ml": 3}


def check(model: Any, feeds: dict[str, Any]) -> None:
    """Compare all results, maps included."""
    content = model.SerializeToString()
    expected = runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feeds)
    for got, other in zip(triune.Session(content).run(feeds), expected, strict=True):
        if isinstance(other, list):
            assert [list(each) for each in got] == [list(each) for each in other]
            got, other = (np.array([list(each.values()) for each in maps]) for maps in (got, other))
        if other.dtype.kind == "f":
            np.testing.assert_allclose(got, other, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(other).max())))
        else:
            np.testing.assert_array_equal(got, other)


def data(classes: int) -> tuple[Any, Any]:
    """Return features and classes, or numbers where there are none."""
    if classes == 0:
        x, y = make_regression(300, 8, random_state=0)
    else:
        x, y = make_classification(300, 8, n_informative=5, n_classes=classes, random_state=0)
    return x.astype(np.float32), y


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (ensemble.RandomForestClassifier(30, random_state=0), 3),
        (ensemble.RandomForestClassifier(30, random_state=0), 2),
        (ensemble.RandomForestRegressor(30, random_state=0), 0),
        (ensemble.GradientBoostingClassifier(n_estimators=15), 3),
        (ensemble.GradientBoostingClassifier(n_estimators=15), 2),
        (ensemble.GradientBoostingRegressor(n_estimators=15), 0),
        (ensemble.IsolationForest(n_estimators=15, random_state=0), 2),
        (linear_model.LogisticRegression(max_iter=500), 3),
        (linear_model.LogisticRegression(), 2),
        (linear_model.LinearRegression(), 0),
        (svm.SVC(), 3),
        (svm.SVC(kernel="poly"), 2),
        (svm.SVR(), 0),
        (svm.OneClassSVM(), 2),
        (cluster.KMeans(4, n_init=2, random_state=0), 2),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_what_scikit_learn_learns(model: Any, classes: int) -> None:
    x, y = data(classes)
    model.fit(x, y)
    check(skl2onnx.to_onnx(model, x[:1], target_opset=OPSETS), {"X": x[:100]})


def test_columns_of_strings_and_numbers() -> None:
    rng = np.random.default_rng(0)
    numbers, colours = rng.normal(size=(200, 2)).astype(np.float32), rng.choice(["red", "green", "blue"], (200, 1))
    table = np.concatenate([numbers.astype(object), colours.astype(object)], axis=1)
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), [0, 1]),
            ("colours", preprocessing.OneHotEncoder(handle_unknown="ignore"), [2]),
        ]
    )
    labels = np.where(numbers[:, 0] + (colours[:, 0] == "red") > 0.5, "yes", "no")
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(table, labels)
    types = skl2onnx.common.data_types
    inputs = [("numbers", types.FloatTensorType([None, 2])), ("colours", types.StringTensorType([None, 1]))]
    colours = colours.astype(object)
    colours[0] = "unseen"
    converted = skl2onnx.convert_sklearn(model, "columns", inputs, target_opset=OPSETS)
    check(converted, {"numbers": numbers, "colours": colours})


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_what_lightgbm_learns(classes: int) -> None:
    lightgbm, onnxmltools = pytest.importorskip("lightgbm"), pytest.importorskip("onnxmltools")
    x, y = data(classes)
    x[::7, 2] = np.nan
    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    model = kind(n_estimators=15, verbose=-1).fit(x, y)
    types = onnxmltools.convert.common.data_types
    converted = onnxmltools.convert_lightgbm(model, initial_types=[("X", types.FloatTensorType([None, 8]))])
    check(converted, {"X": x[:100]})


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_what_xgboost_learns(classes: int) -> None:
    xgboost, onnxmltools = pytest.importorskip("xgboost"), pytest.importorskip("onnxmltools")
    x, y = data(classes)
    x[::7, 2] = np.nan
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    model = kind(n_estimators=15).fit(x, y)
    types = onnxmltools.convert.common.data_types
    converted = onnxmltools.convert_xgboost(model, initial_types=[("X", types.FloatTensorType([None, 8]))])
    check(converted, {"X": x[:100]})
