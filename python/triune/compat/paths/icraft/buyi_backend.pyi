from triune.icraft.buyibackend import *  # noqa: F403
