"""Whose a process is, by the path of its cgroup."""

import pytest

from gpuledger.agent.cgroups import process_cgroup1_paths
from gpuledger.agent.consumers import ConsumerRef, consumer_from_cgroup, consumer_of_process

ID = "b4e317bd39909d5ac856daeb2e17af4d2a80563cbaf7fd338ae59e78a6f3770e"
UID = "5e481006-5948-46b8-9e5a-2c99ddac1c12"
OTHER = "d1849f61c6db10f395d8d9578d596cae461d1f1f68d25661108b6fcc87e8f0de"


def slurm(job: str, container: str = "") -> ConsumerRef:
    return ConsumerRef("slurm_job", job, container)


def unit(name: str) -> ConsumerRef:
    return ConsumerRef("systemd", name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # Slurm, cgroup/v1
        ("/slurm/uid_1000/job_42/step_0/task_0", slurm("42")),
        ("/slurm/uid_1000/job_42/step_batch", slurm("42")),
        ("/slurm/uid_1000/job_42/step_extern/task_0", slurm("42")),
        ("/slurm_node7/uid_0/job_4711", slurm("4711")),
        # Slurm, cgroup/v2
        ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", slurm("42")),
        ("/system.slice/slurmstepd.scope/job_42/step_interactive/slurm", slurm("42")),
        ("/system.slice/node7_slurmstepd.scope/job_42/step_batch/user/task_special", slurm("42")),
        (f"/system.slice/slurmstepd.scope/job_42/step_0/user/libpod-{ID}.scope", slurm("42", ID)),
        ("/system.slice/slurmstepd.scope/system", unit("slurmstepd.scope")),
        ("/system.slice/slurmd.service", unit("slurmd.service")),
        # containers without Kubernetes
        (f"/docker/{ID}", ConsumerRef("container", ID, ID)),
        (f"/system.slice/docker-{ID}.scope", ConsumerRef("container", ID, ID)),
        (f"/machine.slice/libpod-{ID}.scope/container", ConsumerRef("container", ID, ID)),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            ConsumerRef("container", ID, ID),
        ),
        (f"/system.slice/docker-{ID}.scope/system.slice/train.service", ConsumerRef("container", ID, ID)),
        # systemd
        ("/system.slice/jupyter.service", unit("jupyter.service")),
        ("/system.slice/jupyter.service/kernel-3", unit("jupyter.service")),
        ("/system.slice/system-train.slice/train@3.service", unit("train@3.service")),
        ("/system.slice/run-u12.service", unit("run-u12.service")),
        ("/research.slice/research-vision.slice/train.service", unit("train.service")),
        ("/research.slice/research-vision.slice/run-u12.scope", unit("research-vision.slice")),
        ("/research.slice", unit("research.slice")),
        ("/user.slice/user-1000.slice/session-3.scope", unit("user-1000.slice")),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/notebook.service", unit("user-1000.slice")),
        # nobody's
        ("/", None),
        ("/init.scope", None),
        ("/lxc.payload.first", None),
        ("/libpod_parent/conmon", None),
        ("/job_42/step_0", None),
        # pods, and jobs inside of them
        (f"/kubepods/besteffort/pod{UID}/{ID}", ConsumerRef("pod", UID, ID)),
        (f"/kubepods/besteffort/pod{UID}/{ID}/slurm/uid_0/job_42/step_0", ConsumerRef("pod", UID, ID)),
    ],
)
def test_the_outermost_scheduler_that_gave_the_gpu_pays(path: str, expected: ConsumerRef | None) -> None:
    assert consumer_from_cgroup(path) == expected


def pod_slice(uid: str = UID) -> str:
    return f"kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice"


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        # a user's session manager: everything below is the user's to name
        ("/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_99", unit("user-1000.slice")),
        (
            "/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_99",
            unit("user-1000.slice"),
        ),
        ("/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_99", unit("user-1000.slice")),
        (f"/user.slice/user-1000.slice/user@1000.service/{pod_slice()}", unit("user-1000.slice")),
        (f"/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}", unit("user-1000.slice")),
        (f"/user.slice/user-1000.slice/user@1000.service/{ID}", unit("user-1000.slice")),
        (
            "/user.slice/user-1000.slice/user@1000.service/user-0.slice/sshd.service",
            unit("user-1000.slice"),
        ),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/{pod_slice()}",
            ConsumerRef("container", ID, ID),
        ),
        # a container
        (f"/system.slice/docker-{ID}.scope/slurmstepd.scope/job_7", ConsumerRef("container", ID, ID)),
        (f"/system.slice/docker-{ID}.scope/slurm/uid_0/job_7", ConsumerRef("container", ID, ID)),
        (f"/docker/{ID}/docker/{OTHER}", ConsumerRef("container", ID, ID)),
        (f"/docker/{ID}/system.slice/docker-{OTHER}.scope", ConsumerRef("container", ID, ID)),
        ("/lxc.payload.first/system.slice/slurmstepd.scope/job_7", unit("slurmstepd.scope")),
        # a service with cgroups of its own
        (f"/system.slice/jupyter.service/{pod_slice()}", unit("jupyter.service")),
        (f"/system.slice/jupyter.service/docker-{ID}.scope", unit("jupyter.service")),
        ("/system.slice/jupyter.service/slurmstepd.scope/job_7", unit("jupyter.service")),
        (f"/research.slice/run-u12.scope/kubepods/pod{UID}", unit("research.slice")),
        # a job
        (f"/system.slice/slurmstepd.scope/job_42/step_0/user/task_0/{pod_slice()}", slurm("42")),
        (f"/slurm/uid_1000/job_42/step_0/kubepods/pod{UID}/{ID}", slurm("42", ID)),
        ("/system.slice/slurmstepd.scope/job_42/step_0/slurmstepd.scope/job_7", slurm("42")),
    ],
)
def test_whoever_owns_a_cgroup_pays_for_what_it_is_called_below(path: str, owner: ConsumerRef) -> None:
    assert consumer_from_cgroup(path) == owner


@pytest.mark.parametrize(
    "path",
    [
        f"/system.slice/docker-{OTHER}.scope/kubelet/kubepods/pod{UID}/{ID}",
        f"/machine.slice/libpod-{OTHER}.scope/container/kubelet.slice/kubelet-{pod_slice()}/crio-{ID}.scope",
        f"/system.slice/containerd.service/{pod_slice().partition('/')[2]}:cri-containerd:{ID}",
        f"/system.slice/k3s-agent.service/kubepods/burstable/pod{UID}/{ID}",
    ],
)
def test_a_cluster_inside_a_container_or_below_its_runtime_has_its_pods(path: str) -> None:
    assert consumer_from_cgroup(path) == ConsumerRef("pod", UID, ID)


JOB_OF_V1 = """\
13:name=systemd:/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_7
12:cpu,cpuacct:/system.slice/slurmd.service
5:devices:/slurm/uid_1000/job_42/step_0/task_0
4:freezer:/slurm/uid_1000/job_42/step_0
1:name=elogind:/slurm/uid_0/job_9
0::/system.slice/slurmd.service
"""


def test_the_paths_of_version_1_are_those_of_controllers_and_that_of_the_devices_is_first() -> None:
    assert process_cgroup1_paths(JOB_OF_V1) == (
        "/slurm/uid_1000/job_42/step_0/task_0",
        "/system.slice/slurmd.service",
        "/slurm/uid_1000/job_42/step_0",
    )
    assert process_cgroup1_paths("0::/kubepods/pod1\n") == ()
    assert process_cgroup1_paths("\n:\n1\n") == ()


def test_where_the_version_2_path_says_a_unit_only_that_of_version_1_says_the_job() -> None:
    old = process_cgroup1_paths(JOB_OF_V1)
    assert consumer_of_process("/system.slice/slurmd.service", old) == slurm("42")
    assert consumer_of_process("/", [f"/kubepods/besteffort/pod{UID}/{ID}"]) == ConsumerRef("pod", UID, ID)
    assert consumer_of_process(None, [f"/docker/{ID}"]) == ConsumerRef("container", ID, ID)


def test_what_version_2_says_of_pods_jobs_and_containers_stands() -> None:
    pod = f"/kubepods/besteffort/pod{UID}/{ID}"
    assert consumer_of_process(pod, ["/slurm/uid_1000/job_42/step_0"]) == ConsumerRef("pod", UID, ID)
    assert consumer_of_process("/system.slice/a.service", ["/system.slice/b.service"]) == unit("a.service")
    assert consumer_of_process("/", []) is None
