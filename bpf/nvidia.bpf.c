// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What processes ask of the NVIDIA kernel driver: open, close, ioctl and mmap of its device nodes, one record a
// call, written when it returns. Which functions of the driver these are depends on its branch and is chosen from
// kallsyms; the cookie of each probe says which kind of call it is, and of which calls the function is the entry.
//
// In a record, `function` is the ioctl's number (the real one where it came in an envelope), `stream` the minor
// number of the device node, `result` the errno or 0, `bytes` the length of what was mapped. Launches make no
// ioctl: this tells of lives and allocations, never of utilisation.

#include "event.h"

#define ENVELOPE 211  // NV_ESC_IOCTL_XFER_CMD: the ioctl's number, size and argument lie in a structure
#define NUMBER(command) ((command) & 0xff)
#define TYPE(command) ((command) >> 8 & 0xff)
#define KIND(cookie) ((cookie) & 0xffff)
#define ENTRY_OF(cookie) ((cookie) >> 16)  // of all calls, or of one kind of them: driver.py

struct inode {
    u32 i_rdev;
} __attribute__((preserve_access_index));

struct file {
    struct inode *f_inode;
} __attribute__((preserve_access_index));

struct vm_area_struct {
    unsigned long vm_start;
    unsigned long vm_end;
} __attribute__((preserve_access_index));

struct kobject {
    const char *name;
} __attribute__((preserve_access_index));

struct device {
    struct kobject kobj;
} __attribute__((preserve_access_index));

struct pci_dev {
    struct device dev;
} __attribute__((preserve_access_index));

struct driver_call {
    u64 entry_ns;
    u64 command;
    u64 minor;
    u64 kind;
    u64 bytes;
};

struct registration {
    u32 pid;
    u8 uuid[16];
};

struct registered {
    u64 time_ns;
    u64 start_ns;
    u64 partition; // not 0: the UUID is that of a MIG instance's GPU, and this its partition
};

struct xid {
    u64 time_ns;
    u64 code;
    char address[16]; // on the PCI bus: 0000:17:00.0
};

RING(events);
COUNTERS(losses, DRIVER_COUNT);
struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, 1); // as many as driver.py says
    __type(value, struct xid);
} xids SEC(".maps"); // where it is full the oldest goes: of a storm the last ones count
HASH(driver_calls, u64, struct driver_call, MAX_THREADS);
HASH(registrations, struct registration, struct registered, MAX_PROCESSES);

static __always_inline void count(u32 which)
{
    u64 *counter = bpf_map_lookup_elem(&losses, &which);
    if (counter)
        *counter += 1;
}

static __always_inline u64 minor_of(struct inode *inode)
{
    return BPF_CORE_READ(inode, i_rdev) & 0xfffff; // MINORBITS of include/linux/kdev_t.h
}

// Where 32-bit calls have an entry of their own, a compiler that finds both alike lets one of them call the other:
// then both are passed through, and the one that is meant is told by the call.
static __always_inline int is_entry(u64 cookie)
{
    u64 of = ENTRY_OF(cookie);
    return of == ENTRY_OF_ALL || of == (in_compat_call() ? ENTRY_OF_COMPAT : ENTRY_OF_NATIVE);
}

SEC("kprobe") int enter_driver(struct pt_regs *ctx)
{
    u64 id = bpf_get_current_pid_tgid(), cookie = bpf_get_attach_cookie(ctx);
    struct driver_call call = {.entry_ns = bpf_ktime_get_boot_ns(), .kind = KIND(cookie)};
    if (!is_entry(cookie))
        return 0;
    if (call.kind == OPERATION_IOCTL_OPEN || call.kind == OPERATION_IOCTL_CLOSE) {
        call.minor = minor_of((struct inode *)PT_REGS_PARM1(ctx));
    } else {
        struct file *file = (struct file *)PT_REGS_PARM1(ctx);
        u32 command = call.kind == OPERATION_IOCTL_MMAP ? 0 : PT_REGS_PARM2(ctx), inside = 0;
        call.minor = minor_of(BPF_CORE_READ(file, f_inode));
        if (call.kind == OPERATION_IOCTL_MMAP) {
            struct vm_area_struct *area = (struct vm_area_struct *)PT_REGS_PARM2(ctx);
            call.bytes = BPF_CORE_READ(area, vm_end) - BPF_CORE_READ(area, vm_start);
        }
        if (call.kind == OPERATION_IOCTL_OTHER && TYPE(command) == 'F' && NUMBER(command) == ENVELOPE) {
            bpf_probe_read_user(&inside, sizeof(inside), (void *)PT_REGS_PARM3(ctx));
            command = (command & ~0xffU) | NUMBER(inside);
        }
        call.command = command;
    }
    // an entry that is still there has had no return: one that kretprobes had no room for
    if (bpf_map_lookup_elem(&driver_calls, &id))
        count(DRIVER_UNRETURNED);
    if (bpf_map_update_elem(&driver_calls, &id, &call, BPF_ANY))
        count(DRIVER_THREADS_FULL);
    return 0;
}

SEC("kretprobe") int leave_driver(struct pt_regs *ctx)
{
    u64 now_ns = bpf_ktime_get_boot_ns(), id = bpf_get_current_pid_tgid();
    s64 result = PT_REGS_RC(ctx);
    if (!is_entry(bpf_get_attach_cookie(ctx)))
        return 0;
    struct driver_call *call = bpf_map_lookup_elem(&driver_calls, &id);
    if (!call) {
        count(DRIVER_RETURN_WITHOUT_ENTRY);
        return 0;
    }
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(struct event), 0);
    if (event) {
        event->time_ns = now_ns;
        event->duration_ns = now_ns - call->entry_ns;
        event->cgroup_id = bpf_get_current_cgroup_id();
        event->bytes = (s32)result < 0 ? 0 : call->bytes;
        event->launched_threads = 0;
        event->function = call->command;
        event->stream = call->minor;
        event->start_ns = process_start_ns();
        event->span_ns = 0;
        event->count = 1;
        event->pid = id >> 32;
        event->tid = (u32)id;
        event->result = (s32)result < 0 ? -(s32)result : 0;
        event->operation = call->kind;
        event->ordinal = UNKNOWN_ORDINAL;
        bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    } else {
        count(DRIVER_RING_FULL);
    }
    bpf_map_delete_elem(&driver_calls, &id);
    return 0;
}

// uvm_api_register_gpu(UVM_REGISTER_GPU_PARAMS *, file): u8 uuid[16] at 0, u32 SMC partition at 32 (0: no MIG), in
// kernel memory; the same from branch 515 on. Called once for each process and device.
SEC("kprobe") int register_gpu(struct pt_regs *ctx)
{
    u64 parameters = PT_REGS_PARM1(ctx);
    struct registration key = {.pid = bpf_get_current_pid_tgid() >> 32};
    struct registered value = {.time_ns = bpf_ktime_get_boot_ns(), .start_ns = process_start_ns()};
    u32 partition = 0;
    bpf_probe_read_kernel(key.uuid, sizeof(key.uuid), (void *)parameters);
    bpf_probe_read_kernel(&partition, sizeof(partition), (void *)(parameters + 32));
    value.partition = partition;
    if (bpf_map_update_elem(&registrations, &key, &value, BPF_ANY))
        count(DRIVER_REGISTRATIONS_FULL);
    return 0;
}

static __always_inline int report_error(u64 device, u32 code)
{
    struct xid xid = {.time_ns = bpf_ktime_get_boot_ns(), .code = code};
    const char *name = BPF_CORE_READ((struct pci_dev *)device, dev.kobj.name);
    bpf_probe_read_kernel_str(xid.address, sizeof(xid.address), name);
    bpf_map_push_elem(&xids, &xid, BPF_EXIST);
    return 0;
}

// nv_report_error(struct pci_dev *, u32 code, const char *format, va_list): whatever the driver reports as an Xid
// passes here, and fires the tracepoint nvidia_dev_xid here. A probe on the function does not keep the module from
// being unloaded; one on the tracepoint does.
SEC("kprobe") int on_error(struct pt_regs *ctx)
{
    return report_error(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx));
}

TRACEPOINT(nvidia_dev_xid) int on_xid(struct bpf_raw_tracepoint_args *ctx)
{
    return report_error(ctx->args[0], ctx->args[1]);
}
