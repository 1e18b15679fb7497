// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Entries of kernel launches whose grid and stream lie on the stack or in structures.

// cuLaunchKernel and cuLaunchCooperativeKernel: f, grid x y z, block x y z, shared bytes, stream, ...
PROBE int enter_launch(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 function = PT_REGS_PARM1(ctx); KEEP_APART(function);
    u64 grid_x = PT_REGS_PARM2(ctx); KEEP_APART(grid_x);
    u64 grid_y = PT_REGS_PARM3(ctx); KEEP_APART(grid_y);
    u64 grid_z = PT_REGS_PARM4(ctx); KEEP_APART(grid_z);
    u64 block_x = PT_REGS_PARM5(ctx); KEEP_APART(block_x);
    u64 block_y = PT_REGS_PARM6(ctx); KEEP_APART(block_y);
    u64 stack = PT_REGS_SP(ctx); KEEP_APART(stack);
    u64 rest[3] = {};
    READ_REST(ctx, stack, rest);
    u64 block_z = rest[0], stream = rest[2];
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    call->function = function;
    call->stream = stream;
    call->launched_threads = (u64)(u32)grid_x * (u32)grid_y * (u32)grid_z
                             * (u32)block_x * (u32)block_y * (u32)block_z;
    return 0;
}

// cuLaunchKernelEx: CUlaunchConfig { u32 grid[3], block[3], shared bytes; CUstream at 32; ... }, f, ...
PROBE int enter_launch_config(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 config = PT_REGS_PARM1(ctx); KEEP_APART(config);
    u64 function = PT_REGS_PARM2(ctx); KEEP_APART(function);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u32 shape[6] = {};
    u64 stream = 0;
    bpf_probe_read_user(shape, sizeof(shape), (void *)config);
    bpf_probe_read_user(&stream, sizeof(stream), (void *)(config + 32));
    call->function = function;
    call->stream = stream;
    call->launched_threads = (u64)shape[0] * shape[1] * shape[2] * shape[3] * shape[4] * shape[5];
    return 0;
}

// cuLaunchCooperativeKernelMultiDevice: CUDA_LAUNCH_PARAMS[] { f; u32 grid[3], block[3], shared bytes; CUstream
// at 40; ... } of 56 bytes, how many, flags. One kernel on each of several devices: which one can not be said.
PROBE int enter_launch_list(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 list = PT_REGS_PARM1(ctx); KEEP_APART(list);
    u32 launches = PT_REGS_PARM2(ctx); KEEP_APART(launches);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u64 launched_threads = 0;
    for (u32 i = 0; i < MAX_LISTED_LAUNCHES; i++) {
        u32 shape[6] = {};
        if (i >= launches)
            break;
        bpf_probe_read_user(shape, sizeof(shape), (void *)(list + i * 56 + 8));
        launched_threads += (u64)shape[0] * shape[1] * shape[2] * shape[3] * shape[4] * shape[5];
    }
    bpf_probe_read_user(&call->function, sizeof(call->function), (void *)list);
    bpf_probe_read_user(&call->stream, sizeof(call->stream), (void *)(list + 40));
    call->launched_threads = launched_threads;
    return 0;
}
