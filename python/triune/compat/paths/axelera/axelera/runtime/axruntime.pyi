from triune.axelera.runtime.axruntime import *  # noqa: F403
