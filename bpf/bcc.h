// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What the handlers need of their surroundings where bcc compiles them on the node. Its rewriter takes map
// calls as methods only, so agent/probes/bcc.py writes `bpf_map_lookup_elem(&map, ` as `map.lookup(`, and
// so on. TASK_*, SIGNAL_*, CGROUP_* and KERNFS_* are offsets read from the running kernel's own BTF.

#include <uapi/linux/ptrace.h>

#define PROBE
#define TRACEPOINT(name)

#define RING(name) BPF_RINGBUF_OUTPUT(name, RING_PAGES)
#define COUNTERS(name, entries) BPF_PERCPU_ARRAY(name, u64, entries)
#define ARRAY(name, value) BPF_ARRAY(name, value, 1)
#define HASH(name, key, value, entries) BPF_F_TABLE("hash", key, value, name, entries, BPF_F_NO_PREALLOC)
#define QUEUE(name, value, entries) BPF_QUEUE(name, value, entries)

static __always_inline u64 process_start_ns(void)
{
    u64 start_ns = 0;
#if defined(TASK_GROUP_LEADER) && defined(TASK_START_BOOTTIME)
    u64 task = bpf_get_current_task(), leader = 0;
    bpf_probe_read_kernel(&leader, sizeof(leader), (void *)(task + TASK_GROUP_LEADER));
    bpf_probe_read_kernel(&start_ns, sizeof(start_ns), (void *)(leader + TASK_START_BOOTTIME));
#endif
    return start_ns;
}

// Whether the thread that ends now is the last of its process; without BTF, whether it is the first.
static __always_inline int process_ends(u64 id)
{
#if defined(TASK_SIGNAL) && defined(SIGNAL_LIVE)
    u64 task = bpf_get_current_task(), group = 0;
    s32 threads_alive = 0;
    bpf_probe_read_kernel(&group, sizeof(group), (void *)(task + TASK_SIGNAL));
    bpf_probe_read_kernel(&threads_alive, sizeof(threads_alive), (void *)(group + SIGNAL_LIVE));
    return threads_alive == 0;
#else
    return (u32)(id >> 32) == (u32)id;
#endif
}

// The id of a cgroup of the unified hierarchy (version 2); 0 for one of another hierarchy, or without BTF.
static __always_inline u64 unified_cgroup_id(u64 cgroup)
{
    u64 id = 0;
#if defined(CGROUP_ROOT) && defined(CGROUP_HIERARCHY) && defined(CGROUP_NODE) && defined(KERNFS_ID)
    u64 root = 0, node = 0;
    s32 hierarchy = -1;
    bpf_probe_read_kernel(&root, sizeof(root), (void *)(cgroup + CGROUP_ROOT));
    bpf_probe_read_kernel(&hierarchy, sizeof(hierarchy), (void *)(root + CGROUP_HIERARCHY));
    bpf_probe_read_kernel(&node, sizeof(node), (void *)(cgroup + CGROUP_NODE));
    if (hierarchy == UNIFIED_HIERARCHY)
        bpf_probe_read_kernel(&id, sizeof(id), (void *)(node + KERNFS_ID));
#endif
    return id;
}
