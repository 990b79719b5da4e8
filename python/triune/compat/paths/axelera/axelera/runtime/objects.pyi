from triune.axelera.runtime.objects import *  # noqa: F403
