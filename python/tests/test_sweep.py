"""The same sweep in this process, on a local Dask cluster and on a local Ray cluster; bad input."""

import importlib.util
import os
import unittest

import quaver_sim

SCENARIO = """
[load]
mix = "get:95%:fixed=1us,scan:5%:fixed=100us"
loads = "20..80:20"
requests = 3000

[server]
workers = 4
policy = "two-queue:quantum=5us"
mechanism = "uintr"
"""


class Sweep(unittest.TestCase):
    def test_outcomes_do_not_depend_on_where_they_are_computed(self):
        from distributed import Client, LocalCluster

        here = quaver_sim.sweep([SCENARIO, SCENARIO.replace("uintr", "signal")])
        self.assertEqual([len(outcomes) for outcomes in here], [4, 4])
        self.assertGreater(here[0][3]["total"]["latency_us"]["p99"], 1.0)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            there = quaver_sim.sweep([SCENARIO, SCENARIO.replace("uintr", "signal")], quaver_sim.dask_map(client))
        self.assertEqual(here, there)

    @unittest.skipUnless(importlib.util.find_spec("ray"), "Ray is not installed")
    def test_ray_gives_the_same_outcomes(self):
        # A cluster of this process alone needs no token in the user's home.
        os.environ["RAY_AUTH_MODE"] = "disabled"
        import ray

        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
        try:
            self.assertEqual(quaver_sim.sweep(SCENARIO, quaver_sim.ray_map()), quaver_sim.sweep(SCENARIO))
        finally:
            ray.shutdown()

    def test_errors_name_line_and_key(self):
        with self.assertRaisesRegex(ValueError, "line 8(.|\n)*workers"):
            quaver_sim.simulate(SCENARIO.replace("workers = 4", "workers = -4"))


if __name__ == "__main__":
    unittest.main()
