// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Paths of cgroups that are removed: an id can be turned into a path as long as the directory is there, and the calls
// of a pod that is gone may still wait to be read.

// The kernel tells of one removal at a time, under a lock of its own, so there is one place to put the path together.
TRACEPOINT(cgroup_rmdir) int on_rmdir(struct bpf_raw_tracepoint_args *ctx)
{
    int zero = 0;
    u64 id = unified_cgroup_id(ctx->args[0]);
    struct gone_cgroup *gone = bpf_map_lookup_elem(&gone_cgroup, &zero);
    if (!id || !gone)
        return 0;
    gone->id = id;
    bpf_probe_read_kernel_str(gone->path, sizeof(gone->path), (void *)ctx->args[1]);
    bpf_map_push_elem(&gone_cgroups, gone, BPF_EXIST);
    return 0;
}
