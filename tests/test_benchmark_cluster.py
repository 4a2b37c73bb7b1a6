"""The benchmark on Ray: the same records as here, and a node that is lost costs no cell."""

import threading
import time
from pathlib import Path

import pytest
import test_benchmark
from test_benchmark import FEW, _snapshot, work

from diffnea import benchmark
from diffnea.benchmark import cells

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves sockets open
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PATHS = {"env_vars": {"PYTHONPATH": str(Path(test_benchmark.__file__).parent)}}


def slow_work(cell):
    time.sleep(0.4)
    return work(cell)


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.lost = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, runtime_env=PATHS)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_ray_leaves_the_same_records_also_when_a_node_is_lost(cluster, tmp_path):
    chosen = cells(models=FEW, systems=("cartpole", "furuta"), seeds=2)
    benchmark.run(chosen, tmp_path / "here", workers=1, work=work)

    def lose_a_node():
        while len(list((tmp_path / "ray").glob("cells/*/*/*/[!.]*"))) < 5:
            time.sleep(0.05)
        cluster.remove_node(cluster.lost, allow_graceful=False)

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    summary = benchmark.run(chosen, tmp_path / "ray", engine="ray", work=slow_work)
    thread.join()
    assert summary.ran == len(chosen) == 36 and not summary.failures
    assert len([node for node in ray.nodes() if node["Alive"]]) == 1
    assert _snapshot(tmp_path / "here") == _snapshot(tmp_path / "ray")


def test_a_cluster_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="benchmark: no Ray cluster at 127.0.0.1:1"):
        benchmark.run(cells(models=("nea",)), tmp_path, engine="ray", address="127.0.0.1:1", work=work)
