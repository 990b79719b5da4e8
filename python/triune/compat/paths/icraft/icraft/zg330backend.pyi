from triune.icraft.zg330backend import *  # noqa: F403
