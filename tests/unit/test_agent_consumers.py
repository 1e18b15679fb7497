"""Whose a process is, by the path of its cgroup."""

import pytest

from gpuledger.agent.consumers import ConsumerRef, consumer_from_cgroup

ID = "b4e317bd39909d5ac856daeb2e17af4d2a80563cbaf7fd338ae59e78a6f3770e"
UID = "5e481006-5948-46b8-9e5a-2c99ddac1c12"


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
