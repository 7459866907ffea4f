"""Servers in simulation, under Quaver's scheduling policies, on one machine or on a cluster.

A scenario is TOML, as for `quaver sim`. `sweep` runs it at many rates, or many scenarios, wherever `map_tasks` says: in this
process, on a Dask cluster (`dask_map(client)`) or on a Ray cluster (`ray_map()`). The outcomes are the same everywhere.
"""

import json

from ._native import rates
from ._native import simulate as _simulate

__all__ = ["dask_map", "rates", "ray_map", "simulate", "sweep"]


def simulate(scenario, rate=None, check=False):
    """The outcome of one run as a dictionary; without a rate, at the scenario's first."""
    return json.loads(_simulate(scenario, rates(scenario)[0] if rate is None else rate, check))


def _one(task):
    return simulate(*task)


def sweep(scenarios, map_tasks=None):
    """The outcomes of every scenario at each of its rates: a list for each scenario, in order.

    `map_tasks(function, tasks)` returns the results in the order of the tasks; the default is `map`.
    """
    scenarios = [scenarios] if isinstance(scenarios, str) else list(scenarios)
    tasks = [(scenario, rate) for scenario in scenarios for rate in rates(scenario)]
    outcomes = iter(list((map_tasks or map)(_one, tasks)))
    return [[next(outcomes) for _ in rates(scenario)] for scenario in scenarios]


def dask_map(client):
    """For `sweep`: on the cluster of a `distributed.Client`."""
    return lambda function, tasks: client.gather(client.map(function, tasks, pure=False))


def ray_map():
    """For `sweep`: on the Ray cluster that `ray.init` has connected to."""
    import ray

    def map_tasks(function, tasks):
        remote = ray.remote(function)
        return ray.get([remote.remote(task) for task in tasks])

    return map_tasks
