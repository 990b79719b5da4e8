"""A model over many files: decoding, preprocessing and inference in worker threads, results in order.

```
from triune.batch import Preprocess, predict

for prediction in predict("model.onnx", "photographs", preprocess=Preprocess.imagenet(), top_k=5):
    print(prediction.source, prediction.top[0])
```

Every worker has a session of its own over the same weights and takes a batch from the file to the result, so that nothing waits
for anything but the disk. Pictures need the extra ``images``, tables of results the extra ``arrow``.
"""

from triune.batch._pictures import Preprocess
from triune.batch._predict import Failure, Prediction, Predictions, Top, predict

__all__ = ["Failure", "Prediction", "Predictions", "Preprocess", "Top", "predict"]
