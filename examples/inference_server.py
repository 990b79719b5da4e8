"""A model behind MLServer (`pip install mlserver`), which speaks KServe's Open Inference Protocol: a runtime of 30 lines.

With `model-settings.json` beside it, `mlserver start .` serves the model over HTTP and gRPC:

    {"name": "digits", "implementation": "inference_server.Runtime", "parameters": {"uri": "model.onnx"}}

By itself, it asks a runtime of the network that comes with Triune what a digit is.
"""

from __future__ import annotations

import asyncio
import os

from mlserver import MLModel, ModelSettings, types
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.utils import get_model_uri

import triune
from triune.models import DIGITS_INT8, digits_held_out


class Runtime(MLModel):
    """A `triune.Session` for each worker, which computes one request after the other with all of its threads."""

    async def load(self) -> bool:
        """Open the model, and say what it takes and gives."""
        threads = int(os.environ.get("TRIUNE_THREADS", "0"))
        session = triune.Session(await get_model_uri(self._settings), threads=threads)
        self.inputs, self.outputs = ([described(info) for info in infos] for infos in (session.inputs, session.outputs))
        self._session = session
        return True

    async def unload(self) -> bool:
        """Close it."""
        self._session.close()
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        """Run it on the request's tensors, for as many rows as they have; whoever goes away stops the run."""
        feeds = {given.name: NumpyCodec.decode_input(given) for given in payload.inputs}
        names = [wanted.name for wanted in payload.outputs] if payload.outputs else [each.name for each in self.outputs]
        try:
            results = await self._session.run_async(names, feeds)
        except triune.errors.ArgumentError as error:
            raise InferenceError(str(error)) from None
        outputs = [NumpyCodec.encode_output(name, made) for name, made in zip(names, results, strict=True)]
        return types.InferenceResponse(model_name=self.name, outputs=outputs)


def described(info: triune.ValueInfo) -> types.MetadataTensor:
    """Return a tensor as the protocol's metadata have it: -1 is an extent that is open."""
    kinds = {"float": "FP", "int": "INT", "uint": "UINT"}
    letters = info.dtype.rstrip("0123456789")
    shape = [extent if isinstance(extent, int) else -1 for extent in info.shape]
    return types.MetadataTensor(name=info.name, datatype=kinds[letters] + info.dtype[len(letters) :], shape=shape)


async def main() -> None:
    """Do what the server does, once."""
    runtime = Runtime(ModelSettings(name="digits", implementation=Runtime, parameters={"uri": str(DIGITS_INT8)}))
    await runtime.load()
    scans, digits = digits_held_out()
    image = NumpyCodec.encode_input("image", scans[:1].transpose(0, 3, 1, 2))
    response = await runtime.predict(types.InferenceRequest(inputs=[image]))
    number = NumpyCodec.decode_output(response.outputs[0]).argmax()
    print(f"it is a {number}, and was a {digits[0]}")
    await runtime.unload()


if __name__ == "__main__":
    asyncio.run(main())
