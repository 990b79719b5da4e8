"""``triune predict``: a model over many pictures or arrays, results as a table."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

from triune._kinds import MODEL, require
from triune._model_info import ModelInfo
from triune.cli.arguments import finite, nonnegative, positive
from triune.cli.pictures import add_image_options, chosen
from triune.cli.progress import Progress

KINDS = ("csv", "jsonl", "parquet")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "predict",
        help="run a model over folders of pictures, results as a table",
        description="Run a model on this machine's CPU over pictures, .npy and .npz files, videos and tables, decoded and "
        "computed in threads, and write a row for each: the best classes, or with --top 0 the outputs.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="an .onnx or .mge file")
    parser.add_argument(
        "sources",
        metavar="FOLDER|FILE",
        nargs="+",
        help="folders, files, videos, .parquet tables, or quoted patterns such as 'a/**/*.jpg'",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="-",
        help="a .csv, .jsonl or .parquet file; - for standard output (default)",
    )
    parser.add_argument(
        "--format", choices=KINDS[:2], default="csv", help="what goes to standard output (default: %(default)s)"
    )
    parser.add_argument(
        "--top", metavar="K", type=nonnegative, default=5, help="best classes in a row (default: 5); 0 for outputs"
    )
    parser.add_argument("--labels", metavar="FILE", type=Path, help="names of the classes, a line each")
    parser.add_argument(
        "--outputs", metavar="NAME,...", type=lambda text: text.split(","), help="the outputs to keep (default: all)"
    )
    parser.add_argument(
        "--column", metavar="NAME", help="where a table has its pictures (default: bytes, image or path)"
    )
    parser.add_argument(
        "--batch", metavar="N", type=positive, help="pictures per run (default: what the model fixes, else 4)"
    )
    parser.add_argument(
        "--workers", metavar="N", type=positive, help="threads, from file to result (default: one per CPU)"
    )
    parser.add_argument("--threads", metavar="N", type=positive, default=1, help="of each run (default: 1)")
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="what happens with a file that cannot be used: an error, or it is left out and named (default: %(default)s)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show progress even if this is no terminal")
    images = add_image_options(parser)
    images.add_argument(
        "--reducing-gap",
        metavar="X",
        type=finite,
        help="decode JPEGs smaller while X times the size is left; 2 is hard to tell",
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune import Session
    from triune.batch import predict
    from triune.batch._predict import files_of
    from triune.batch._tables import write_text

    require(options.model, MODEL, "predict")
    if options.output != "-" and Path(options.output).suffix.lower().removeprefix(".") not in KINDS:
        raise ValueError(f"--output: expected a name that ends in .{', .'.join(KINDS)}, or -, got {options.output}")
    session = Session(options.model)
    how = replace(chosen(options, session.info, session.inputs), reducing_gap=options.reducing_gap)
    plain = how == chosen(argparse.Namespace(), ModelInfo(), session.inputs)
    # Of a model of arrays, options that say how pictures become inputs are an error.
    arrays = plain and (len(session.inputs) != 1 or how.frame(*session.inputs[0]) is None)
    files = list(chain.from_iterable(map(files_of, options.sources)))
    with Progress(verbose=options.verbose) as progress:
        predictions = predict(
            session,
            files,
            batch=options.batch,
            workers=options.workers,
            threads=options.threads,
            preprocess=None if arrays else how,
            outputs=options.outputs,
            top_k=options.top or None,
            labels=options.labels,
            column=options.column,
            on_error=options.on_error,
            progress=lambda done, total: progress(f"{done}" if total is None else f"{done} of {total}"),
        )
        with predictions:
            if options.output == "-":
                # Not as one: who reads may have seen enough.
                write_text(predictions, sys.stdout, f".{options.format}", predictions.columns)
            else:
                count = predictions.write(options.output)
                print(f"{options.output}: {count} rows")
        for failure in predictions.failures:
            progress.warn(f"left out {failure.error}")
    return 0
