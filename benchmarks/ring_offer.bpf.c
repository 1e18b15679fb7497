// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The probes, and a program that makes the kernel tell of calls which nobody made: through all that a probed call goes
// through when it returns, without the trap. BPF_PROG_TEST_RUN runs it, for the process that asks.

#include "../bpf/cuda.bpf.c"

#define LAUNCH_KERNEL 1 // gpuledger.contract.operations
#define SYNCHRONIZE_STREAM 40
#define FUNCTIONS 50
#define CALLS_BETWEEN_WAITS 8
#define TOOK_NS 2000

static long one_call(u32 number, void *nothing)
{
    u64 id = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_boot_ns();
    struct thread *thread = this_thread(id);
    if (!thread)
        return 1;
    int waits = number % CALLS_BETWEEN_WAITS == CALLS_BETWEEN_WAITS - 1;
    struct call call = {
        .entry_ns = now_ns - TOOK_NS,
        .operation = waits ? SYNCHRONIZE_STREAM : LAUNCH_KERNEL,
        .function = waits ? 0 : 1 + number % FUNCTIONS,
        .launched_threads = waits ? 0 : 256,
    };
    tell_call(this_process(id >> 32), thread, id, &call, 0, 0, now_ns);
    return 0;
}

TRACEPOINT(offer) int offer(struct bpf_raw_tracepoint_args *ctx)
{
    bpf_loop(ctx->args[0], one_call, 0, 0);
    return 0;
}
