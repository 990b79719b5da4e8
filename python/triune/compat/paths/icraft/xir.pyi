from triune.icraft.xir import *  # noqa: F403
