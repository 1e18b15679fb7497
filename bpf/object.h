// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What the handlers need of their surroundings where they are compiled ahead, into an object that libbpf loads.
// Sizes of maps are set when it is loaded. Kernel structures are named by the fields that are read, and libbpf
// moves each access to where the running kernel has that field.

#include <linux/bpf.h>
#include <asm/ptrace.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef PT_REGS_PARM6
#if defined(__TARGET_ARCH_x86)
#define PT_REGS_PARM6(x) ((x)->r9)
#elif defined(__TARGET_ARCH_arm64)
#define PT_REGS_PARM6(x) (((struct user_pt_regs *)(x))->regs[5])
#endif
#endif

#define PROBE SEC("uprobe")
#define TRACEPOINT(name) SEC("raw_tp/" #name)

#define RING(name)                                                                                                   \
    struct {                                                                                                         \
        __uint(type, BPF_MAP_TYPE_RINGBUF);                                                                          \
        __uint(max_entries, 4096);                                                                                   \
    } name SEC(".maps")
#define TABLE(name, kind, key_type, value_type, entries, flags)                                                      \
    struct {                                                                                                         \
        __uint(type, kind);                                                                                          \
        __uint(max_entries, entries);                                                                                \
        __uint(map_flags, flags);                                                                                    \
        __type(key, key_type);                                                                                       \
        __type(value, value_type);                                                                                   \
    } name SEC(".maps")
#define COUNTERS(name, entries) TABLE(name, BPF_MAP_TYPE_PERCPU_ARRAY, u32, u64, entries, 0)
#define ARRAY(name, value) TABLE(name, BPF_MAP_TYPE_ARRAY, u32, value, 1, 0)
#define HASH(name, key, value, entries) TABLE(name, BPF_MAP_TYPE_HASH, key, value, entries, BPF_F_NO_PREALLOC)
#define QUEUE(name, value_type, entries)                                                                             \
    struct {                                                                                                         \
        __uint(type, BPF_MAP_TYPE_QUEUE);                                                                            \
        __uint(max_entries, entries);                                                                                \
        __type(value, value_type);                                                                                   \
    } name SEC(".maps")

typedef struct {
    int counter;
} atomic_t;

struct signal_struct {
    atomic_t live;
} __attribute__((preserve_access_index));

struct thread_info {
    unsigned long flags;
    u32 status;
} __attribute__((preserve_access_index));

struct task_struct {
    struct thread_info thread_info;
    struct task_struct *group_leader;
    u64 start_boottime;
    struct signal_struct *signal;
} __attribute__((preserve_access_index));

struct kernfs_node {
    u64 id;
} __attribute__((preserve_access_index));

struct cgroup_root {
    int hierarchy_id;
} __attribute__((preserve_access_index));

struct cgroup {
    struct kernfs_node *kn;
    struct cgroup_root *root;
} __attribute__((preserve_access_index));

static __always_inline u64 process_start_ns(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, group_leader, start_boottime);
}

// Whether the thread is in a system call of the 32-bit kind: TS_COMPAT of arch/x86/include/asm/thread_info.h,
// TIF_32BIT of arch/arm64/include/asm/thread_info.h.
static __always_inline int in_compat_call(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
#if defined(__TARGET_ARCH_x86)
    return (BPF_CORE_READ(task, thread_info.status) & 2) != 0;
#elif defined(__TARGET_ARCH_arm64)
    return (BPF_CORE_READ(task, thread_info.flags) >> 22 & 1) != 0;
#endif
}

// Whether the thread that ends now is the last of its process.
static __always_inline int process_ends(u64 id)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, signal, live.counter) == 0;
}

// The id of a cgroup of the unified hierarchy (version 2); 0 for one of another hierarchy.
static __always_inline u64 unified_cgroup_id(u64 address)
{
    struct cgroup *cgroup = (struct cgroup *)address;
    if (BPF_CORE_READ(cgroup, root, hierarchy_id) != UNIFIED_HIERARCHY)
        return 0;
    return BPF_CORE_READ(cgroup, kn, id);
}

char LICENSE[] SEC("license") = "GPL";
char OF_TABLE[] SEC("gpuledger") = TABLE_DIGEST; // the loader refuses an object of another table of symbols
