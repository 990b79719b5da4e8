"""``triune serve``: simulated boards for programs in other processes and on other machines."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

_PORT = "9981"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="serve simulated boards over a socket",
        description="Serve simulated boards over a socket, to programs that open a URL such as socket://zg330aiu@127.0.0.1:9981. "
        "Every client has a board of its own, unless it asks to share one. Ctrl-C ends it.",
    )
    parser.add_argument("--device", required=True, metavar="NAME", help="the boards' device, such as zg330 or buyi")
    parser.add_argument(
        "--bind",
        default="127.0.0.1:9981",
        metavar="HOST:PORT",
        help="where to listen (127.0.0.1:9981); port 0 picks one; others than loopback addresses need a token and a certificate",
    )
    parser.add_argument("--boards", type=int, default=1, metavar="N", help="how many boards there are (1)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that clients have to know; without, the environment variable TRIUNE_TOKEN holds it",
    )
    parser.add_argument("--cert", metavar="FILE", help="PEM file with the certificate to show: turns TLS on")
    parser.add_argument("--key", metavar="FILE", help="PEM file with the certificate's key")
    parser.add_argument("--insecure", action="store_true", help="allow any address without token or certificate")
    parser.add_argument("--connections", type=int, default=64, metavar="N", help="connections at the same time (64)")
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="seconds of silence that end a connection (30)"
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads of a board (0: one per CPU core)")
    parser.add_argument(
        "--work-limit",
        type=int,
        metavar="N",
        help="operations that a job may take; without, the environment variable TRIUNE_WORK_LIMIT says (10000000000000)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="tell who comes and goes on standard error")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune import _native

    for name, least in (("boards", 1), ("connections", 1), ("threads", 0)):
        if not least <= getattr(options, name) < 2**16:
            raise ValueError(f"--{name} {getattr(options, name)}: there can be {least} to 65535")
    if options.work_limit is not None:
        if not 0 < options.work_limit < 2**64:
            raise ValueError(f"--work-limit {options.work_limit}: a job may take 1 operation or more")
        _native.set_work_limit(options.work_limit)
    if not 0 < options.timeout < 1e9:
        raise ValueError(f"--timeout {options.timeout:g}: expected seconds, more than 0")
    server = _native.BoardServer(
        options.device,
        _address(options.bind),
        boards=options.boards,
        token_file=options.token_file,
        certificate=options.cert,
        key=options.key,
        insecure=options.insecure,
        connections=options.connections,
        patience=options.timeout,
        threads=options.threads,
        verbose=options.verbose,
    )
    host, port = server.address
    count = "1 board" if options.boards == 1 else f"{options.boards} boards"
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        # Whoever started this process waits for the line.
        print(f"{count} of {options.device} at {where}", flush=True)
        server.wait()
    except KeyboardInterrupt:
        pass
    if not server.stop():
        print("triune: a job was still running", file=sys.stderr)
    return 0


def _address(bind: str) -> str:
    """Return a host and port to listen at; without a port, the usual one.

    Raises ValueError for anything else.
    """
    host, colon, port = bind.rpartition(":")
    if not colon or bind.endswith("]"):
        host, port = bind, _PORT
    elif ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"--bind {bind}: an IPv6 address is put in brackets: [::1] or [::1]:{_PORT}")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"--bind {bind}: expected HOST:PORT, such as 127.0.0.1:{_PORT}; port 0 picks one")
    return f"{host}:{port}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
