from triune.axelera.runtime.op import *  # noqa: F403
