// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// When a tallied process has work outstanding on a device: from the first launch after idle (its call) to the return
// of the next call that says that all is done. It is a matter of the whole process, whichever threads launch and wait.
//
// Such a time is a burst. A long one becomes a record with a count of 0 when it ends. Neighbouring short ones make a
// run, up to RUN_NS long, which becomes one record: begin, end, how many bursts, and how much of it they took; the one
// before each run is told by itself, as a sample of how long they are. What nothing has ended is read from the table by user space. Telling twice does no harm, so nobody has to take it away.
//
// Where records turn into tallies and back, user space must not be left with a launch that nothing ends. So the first
// launch (BUSY_FRESH) and the first wait (BUSY_OPEN) of a process that becomes tallied still are records, and only
// what follows is in runs (BUSY_RUNS).

#define BUSY_FRESH 0
#define BUSY_OPEN 1
#define BUSY_RUNS 2

#define IS_LAUNCH(operation) ((operation) < 64 && (LAUNCHES_MASK >> (operation) & 1))
#define IS_WAIT(operation) ((operation) < 64 && (SYNCHRONIZING_MASK >> (operation) & 1))

// Threads of a process on several CPUs change a run within 0.1 us. Who finds it locked for longer, because its
// holder was interrupted, goes on without: the run is then wrong by one call.
static __always_inline int lock(struct busy *busy)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (!__sync_lock_test_and_set(&busy->lock, 1))
            return 1;
    }
    return 0;
}

static __always_inline void unlock(struct busy *busy)
{
    __sync_lock_test_and_set(&busy->lock, 0);
}

static __always_inline int tell(struct busy *busy, s32 ordinal, u64 start_ns, u64 end_ns, u64 work_ns,
                                u64 witnessed_ns, u64 launches, u64 bursts)
{
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(struct event), 0);
    if (!event)
        return 0;
    event->time_ns = end_ns;
    event->span_ns = end_ns - start_ns;
    event->duration_ns = work_ns;
    event->bytes = witnessed_ns;
    event->launched_threads = launches;
    event->function = bursts;
    event->cgroup_id = busy->cgroup_id;
    event->stream = 0;
    event->start_ns = busy->start_ns;
    event->count = 0;
    event->pid = busy->pid;
    event->tid = 0;
    event->result = 0;
    event->operation = 0;
    event->ordinal = ordinal;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 1;
}

// Ends the run with a record; where the ring has no room it goes on, and is told later.
static __always_inline void tell_run(struct busy *busy, s32 ordinal)
{
    if (busy->run_bursts && tell(busy, ordinal, busy->run_ns, busy->run_end_ns, busy->run_work_ns,
                                 busy->run_witnessed_ns, busy->run_launches, busy->run_bursts))
        busy->run_bursts = busy->sampled = 0;
}

static __always_inline void begin_work(struct busy *busy, s32 ordinal, u64 entry_ns)
{
    if (busy->opened_ns) {
        busy->opened_launches += 1;
        return;
    }
    if (busy->run_bursts) {
        if (entry_ns < busy->run_end_ns)
            entry_ns = busy->run_end_ns;
        if (entry_ns - busy->run_end_ns >= LONG_BURST_NS || entry_ns - busy->run_ns >= RUN_NS)
            tell_run(busy, ordinal);
    }
    busy->opened_ns = entry_ns;
    busy->opened_launches = 1;
}

static __always_inline void end_work(struct busy *busy, s32 ordinal, u64 entry_ns, u64 now_ns)
{
    if (!busy->opened_ns || now_ns < busy->opened_ns)
        return;
    u64 waited_ns = now_ns - entry_ns, length_ns = now_ns - busy->opened_ns, witnessed_ns = 0;
    if (waited_ns > MIN_BLOCKED_NS && waited_ns * MIN_BLOCKED_PART > length_ns)
        witnessed_ns = length_ns;
    u64 start_ns = busy->opened_ns;
    busy->opened_ns = 0;
    if (length_ns >= LONG_BURST_NS)
        tell_run(busy, ordinal);
    if (length_ns >= LONG_BURST_NS || !busy->sampled) {
        if (tell(busy, ordinal, start_ns, now_ns, length_ns, witnessed_ns, busy->opened_launches, 1)) {
            busy->sampled = length_ns < LONG_BURST_NS;
            return;
        }
    }
    if (!busy->run_bursts) {
        busy->run_ns = start_ns;
        busy->run_work_ns = busy->run_witnessed_ns = busy->run_launches = 0;
    }
    busy->run_end_ns = now_ns;
    busy->run_work_ns += length_ns;
    busy->run_witnessed_ns += witnessed_ns;
    busy->run_launches += busy->opened_launches;
    busy->run_bursts += 1;
}

static __always_inline struct busy *busy_on(struct process *process, u32 pid, s32 ordinal, int make)
{
    struct resident_key key = {.token = process->token, .ordinal = ordinal};
    struct busy *found = bpf_map_lookup_elem(&outstanding, &key);
    if (found || !make)
        return found;
    struct busy fresh = {.start_ns = process->start_ns, .pid = pid};
    fresh.cgroup_id = bpf_get_current_cgroup_id();
    bpf_map_update_elem(&outstanding, &key, &fresh, BPF_NOEXIST);
    return bpf_map_lookup_elem(&outstanding, &key);
}

// Not tallied any more: what was in runs ends here, and what records say counts again.
static __always_inline int leave_runs(struct busy *busy, s32 ordinal, u64 now_ns)
{
    if (busy->state == BUSY_RUNS) {
        tell_run(busy, ordinal);
        if (busy->run_bursts)
            return 0;
        if (busy->opened_ns && now_ns > busy->opened_ns
            && !tell(busy, ordinal, busy->opened_ns, now_ns, now_ns - busy->opened_ns, 0, 0, 1))
            return 0;
        busy->opened_ns = 0;
    }
    busy->state = BUSY_FRESH;
    return 1;
}

static __always_inline int change_work(struct busy *busy, struct call *call, s32 ordinal, u64 now_ns, int tallied)
{
    if (!tallied && leave_runs(busy, ordinal, now_ns))
        return 1;
    if (IS_LAUNCH(call->operation)) {
        if (busy->state == BUSY_RUNS) {
            begin_work(busy, ordinal, call->entry_ns);
            return 0;
        }
        int first = busy->state == BUSY_FRESH;
        busy->state = BUSY_OPEN;
        return first;
    }
    if (busy->state == BUSY_RUNS) {
        end_work(busy, ordinal, call->entry_ns, now_ns);
        return 0;
    }
    busy->state = BUSY_RUNS;
    busy->opened_ns = busy->run_bursts = 0;
    return 1;
}

// Whether a launch or a wait makes a record, though its process may be tallied.
static __always_inline int work_is_record(struct process *process, u32 pid, struct call *call, s32 ordinal,
                                          u64 now_ns, int tallied)
{
    if (!tallied && !process->tallied_before)
        return 1;
    struct busy *busy = busy_on(process, pid, ordinal, tallied);
    if (!busy || !lock(busy))
        return !tallied;
    int record = change_work(busy, call, ordinal, now_ns, tallied);
    unlock(busy);
    return record;
}

// A record that was to be made found no room: the next one is tried again.
static __always_inline void record_failed(struct process *process, u32 pid, s32 ordinal)
{
    struct busy *busy = busy_on(process, pid, ordinal, 0);
    if (busy)
        busy->state = BUSY_FRESH;
}
