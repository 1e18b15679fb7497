// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What programs ask of the CUDA runtime, by name: a count a process and function, and nothing else (agent run
// --runtime). What the runtime does ends in the driver library, whose probes (cuda.bpf.c) see it once. So nothing
// is recorded here and nothing added to what those tell; no map is shared. The cookie is the function's number
// (agent/probes/cudart.py).

struct runtime_function {
    u64 start_ns; // of the process: its pid may be another's later
    u32 pid;
    u32 number;
};

HASH(runtime_calls, struct runtime_function, u64, 4096);
COUNTERS(runtime_lost, 1);

PROBE int enter_runtime(struct pt_regs *ctx)
{
    struct runtime_function key = {
        .start_ns = process_start_ns(),
        .pid = bpf_get_current_pid_tgid() >> 32,
        .number = bpf_get_attach_cookie(ctx),
    };
    u64 *calls = bpf_map_lookup_elem(&runtime_calls, &key), none = 0;
    if (!calls) {
        bpf_map_update_elem(&runtime_calls, &key, &none, BPF_NOEXIST);
        calls = bpf_map_lookup_elem(&runtime_calls, &key);
    }
    if (calls) {
        __sync_fetch_and_add(calls, 1);
        return 0;
    }
    u32 first = 0;
    u64 *lost = bpf_map_lookup_elem(&runtime_lost, &first);
    if (lost)
        *lost += 1;
    return 0;
}
