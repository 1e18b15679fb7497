// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Streams that are being captured: what is called on them is recorded into a graph and does not run.
//
// A capture begins and ends on one stream, its origin. A stream that waits for an event which was recorded in a
// capture is part of it too, until the capture ends. So streams and events of a capture name its origin and since when
// it goes on, and are of a capture that goes on where the origin says the same.

#define PER_THREAD_STREAM 2 // CU_STREAM_PER_THREAD

// The stream's handle; of the default stream that each thread has of its own, one that is no address.
static __always_inline u64 stream_handle(u64 cookie, u64 id, u64 stream)
{
    if (stream == PER_THREAD_STREAM || (!stream && COOKIE(cookie, PER_THREAD)))
        return (id & 0xffffffff) << 2 | PER_THREAD_STREAM;
    return stream;
}

// What a stream or an event is said to be part of, where that still goes on.
static __always_inline struct capture *capture_of(u64 token, u64 handle, u64 is_event)
{
    struct capture_key key = {.token = token, .handle = handle, .is_event = is_event};
    struct capture *part = bpf_map_lookup_elem(&captures, &key);
    if (!part || (part->origin == handle && !is_event))
        return part;
    key.handle = part->origin;
    key.is_event = 0;
    struct capture *origin = bpf_map_lookup_elem(&captures, &key);
    return origin && origin->origin == part->origin && origin->since_ns == part->since_ns ? part : 0;
}

static __always_inline void begin_capture(struct process *process, u64 stream, u64 now_ns)
{
    struct capture_key key = {.token = process->token, .handle = stream};
    struct capture fresh = {.origin = stream, .since_ns = now_ns};
    struct capture *before = bpf_map_lookup_elem(&captures, &key);
    u64 goes_on = before && before->origin == stream;
    if (bpf_map_update_elem(&captures, &key, &fresh, BPF_ANY)) {
        count(LOSS_CONTEXTS_FULL);
        return;
    }
    if (!goes_on)
        __sync_fetch_and_add(&process->captures, 1);
}

// The stream's capture is over, or the stream is destroyed and its handle may be another's.
static __always_inline void end_capture(u32 pid, u64 stream)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process || !process->captures)
        return;
    struct capture_key key = {.token = process->token, .handle = stream};
    struct capture *part = bpf_map_lookup_elem(&captures, &key);
    u64 is_origin = part && part->origin == stream;
    if (part && !bpf_map_delete_elem(&captures, &key) && is_origin)
        __sync_fetch_and_add(&process->captures, -1);
}

// An event that is recorded on a stream, or a stream that waits for an event, becomes part of the other's capture. An
// event that is recorded anew is of no other any more.
static __always_inline void join_capture(u64 token, u64 effect, u64 stream, u64 event)
{
    u64 records = effect == EFFECT_RECORD_EVENT;
    struct capture_key key = {.token = token, .handle = records ? event : stream, .is_event = records};
    struct capture *from = capture_of(token, records ? stream : event, !records);
    if (!from) {
        if (records)
            bpf_map_delete_elem(&captures, &key);
        return;
    }
    if (!records && capture_of(token, stream, 0))
        return;
    struct capture part = {.origin = from->origin, .since_ns = from->since_ns};
    if (bpf_map_update_elem(&captures, &key, &part, BPF_ANY))
        count(LOSS_CONTEXTS_FULL);
}

// A call that succeeded: whether it was recorded into a graph.
static __always_inline int is_captured(struct process *process, u64 id, u64 effect, struct call *call, u64 now_ns)
{
    u64 stream = stream_handle(call->cookie, id, call->stream);
    if (effect == EFFECT_BEGIN_CAPTURE)
        begin_capture(process, stream, now_ns);
    if (!process->captures || !stream)
        return 0;
    if (effect == EFFECT_RECORD_EVENT || effect == EFFECT_AWAIT_EVENT)
        join_capture(process->token, effect, stream, call->pointer);
    return capture_of(process->token, stream, 0) != 0;
}
