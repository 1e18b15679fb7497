// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Entries of copies that are described by a structure or by lists.

#define MEMORY_HOST 1 // CUmemorytype
#define MEMORY_DEVICE 2
#define MEMORY_ARRAY 3
#define OPERAND_POINTER 1 // CUmemcpy3DOperandType

// The copy's direction where both sides are said to be on the host or on a device; addresses that the driver
// has to look up (unified) leave it open.
static __always_inline u32 direction(u32 operation, u32 from, u32 to)
{
    u32 queued = operation == OPERATION_COPY_UNKNOWN_ASYNC;
    u32 from_device = from == MEMORY_DEVICE || from == MEMORY_ARRAY;
    u32 to_device = to == MEMORY_DEVICE || to == MEMORY_ARRAY;
    if (!queued && operation != OPERATION_COPY_UNKNOWN)
        return operation;
    if (from == MEMORY_HOST && to_device)
        return queued ? OPERATION_COPY_HOST_TO_DEVICE_ASYNC : OPERATION_COPY_HOST_TO_DEVICE;
    if (from_device && to == MEMORY_HOST)
        return queued ? OPERATION_COPY_DEVICE_TO_HOST_ASYNC : OPERATION_COPY_DEVICE_TO_HOST;
    if (from_device && to_device)
        return queued ? OPERATION_COPY_DEVICE_TO_DEVICE_ASYNC : OPERATION_COPY_DEVICE_TO_DEVICE;
    return operation;
}

// cuMemcpy2D and cuMemcpy3D: CUDA_MEMCPY2D or CUDA_MEMCPY3D[_PEER], stream. Offsets: cuda.h.
PROBE int enter_copy_region(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 region = PT_REGS_PARM1(ctx); KEEP_APART(region);
    u64 stream = PT_REGS_PARM2(ctx); KEEP_APART(stream);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u64 extent[3] = {};
    u32 from = 0, to = 0;
    if (COOKIE(cookie, DIMENSIONS) == 3) {
        bpf_probe_read_user(&from, sizeof(from), (void *)(region + 32));
        bpf_probe_read_user(&to, sizeof(to), (void *)(region + 120));
        bpf_probe_read_user(extent, sizeof(extent), (void *)(region + 176));
    } else {
        bpf_probe_read_user(&from, sizeof(from), (void *)(region + 16));
        bpf_probe_read_user(&to, sizeof(to), (void *)(region + 72));
        bpf_probe_read_user(extent, 2 * sizeof(extent[0]), (void *)(region + 112));
        extent[2] = 1;
    }
    call->bytes = extent[0] * extent[1] * extent[2];
    call->operation = direction(call->operation, from, to);
    if (COOKIE(cookie, STREAM))
        call->stream = stream;
    return 0;
}

// Lists of sizes, or of CUmemDecompressParams { u64 source bytes, bytes, ...; } of 64 bytes: which arguments the list
// and its length are says the cookie, the stream may be the eighth or the ninth.
PROBE int enter_copy_batch(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 a1 = PT_REGS_PARM1(ctx); KEEP_APART(a1);
    u64 a2 = PT_REGS_PARM2(ctx); KEEP_APART(a2);
    u64 a3 = PT_REGS_PARM3(ctx); KEEP_APART(a3);
    u64 a4 = PT_REGS_PARM4(ctx); KEEP_APART(a4);
    u64 a5 = PT_REGS_PARM5(ctx); KEEP_APART(a5);
    u64 stack = PT_REGS_SP(ctx); KEEP_APART(stack);
    u64 rest[3] = {};
    READ_REST(ctx, stack, rest);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u64 list = pick(COOKIE(cookie, BYTES), a1, a2, a3, a4, a5, 0), bytes = 0, step = sizeof(bytes);
    u64 copies = pick(COOKIE(cookie, ROWS), a1, a2, a3, a4, a5, 0);
    if (COOKIE(cookie, DIMENSIONS)) {
        list += sizeof(bytes);
        step = 64;
    }
    for (u32 i = 0; i < MAX_LISTED_COPIES; i++) {
        u64 size = 0;
        if (i >= copies)
            break;
        bpf_probe_read_user(&size, sizeof(size), (void *)(list + i * step));
        bytes += size;
    }
    call->bytes = bytes;
    call->stream = pick(COOKIE(cookie, STREAM), a1, a2, a3, a4, a5, 0);
    if (COOKIE(cookie, STREAM) == 8)
        call->stream = rest[1];
    if (COOKIE(cookie, STREAM) == 9)
        call->stream = rest[2];
    return 0;
}

// One or several CUDA_MEMCPY3D_BATCH_OP { operand from, to; u64 extent[3]; ... } of 112 bytes, an operand { u32 type;
// ... } of 40. With an array the extent counts elements, whose size is not said.
PROBE int enter_copy_regions(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 a1 = PT_REGS_PARM1(ctx); KEEP_APART(a1);
    u64 a2 = PT_REGS_PARM2(ctx); KEEP_APART(a2);
    u64 a3 = PT_REGS_PARM3(ctx); KEEP_APART(a3);
    u64 a4 = PT_REGS_PARM4(ctx); KEEP_APART(a4);
    u64 a5 = PT_REGS_PARM5(ctx); KEEP_APART(a5);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u64 list = pick(COOKIE(cookie, BYTES), a1, a2, a3, a4, a5, 0), copies = 1, bytes = 0;
    if (COOKIE(cookie, ROWS))
        copies = pick(COOKIE(cookie, ROWS), a1, a2, a3, a4, a5, 0);
    for (u32 i = 0; i < MAX_LISTED_REGIONS; i++) {
        u64 extent[3] = {};
        u32 from = 0, to = 0;
        if (i >= copies)
            break;
        bpf_probe_read_user(&from, sizeof(from), (void *)(list + i * 112));
        bpf_probe_read_user(&to, sizeof(to), (void *)(list + i * 112 + 40));
        bpf_probe_read_user(extent, sizeof(extent), (void *)(list + i * 112 + 80));
        if (from == OPERAND_POINTER && to == OPERAND_POINTER)
            bytes += extent[0] * extent[1] * extent[2];
    }
    call->bytes = bytes;
    call->stream = pick(COOKIE(cookie, STREAM), a1, a2, a3, a4, a5, 0);
    return 0;
}
