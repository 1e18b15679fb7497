/* Streams and events: positions in the queue and in the copy engine's work, to be waited for. */
#include "cuda_work.h"

#include <stdlib.h>

#define STREAM_MAGIC 0x4d525453u
#define EVENT_MAGIC 0x544e5645u
#define LAST_DEFAULT_STREAM 2u /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: all that is in the queue */

struct event {
    uint32_t magic;
    struct context *context;
    uint64_t after_launch, copies_done_ns;
    struct capture *capture;
};

int stream_find(void *handle, struct stream **stream)
{
    *stream = (uintptr_t)handle <= LAST_DEFAULT_STREAM ? NULL : handle;
    return !*stream || (*stream)->magic == STREAM_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int stream_create(void **handle)
{
    struct context *context = context_current();
    int result = context_check(context);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct stream *stream = calloc(1, sizeof *stream);
    *stream = (struct stream){STREAM_MAGIC, context, 0, 0, NULL};
    *handle = stream;
    return CUDA_SUCCESS;
}

int stream_destroy(void *handle)
{
    struct stream *stream;
    int result = stream_find(handle, &stream);
    if (result || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    stream->magic = 0; /* kept, so that a stale handle is found out */
    return CUDA_SUCCESS;
}

int stream_wait(void *handle)
{
    struct stream *stream;
    int result = stream_find(handle, &stream);
    if (!result && graph_of(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result || !stream)
        return result ? result : wait_all();
    result = wait_for_launch(stream->context, stream->last_launch);
    return result ? result : wait_for_copies(stream->copies_done_ns);
}

/* Ready when its launches are finished and so are its copies. */
static int readiness(struct context *context, uint64_t launch_number, uint64_t done_ns)
{
    int result = launch_ready(context, launch_number);
    return !result && monotonic_ns() < done_ns ? CUDA_ERROR_NOT_READY : result;
}

int stream_query(void *handle)
{
    struct stream *stream;
    int result = stream_find(handle, &stream);
    if (!result && graph_of(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result)
        return result;
    if (stream)
        return readiness(stream->context, stream->last_launch, stream->copies_done_ns);
    struct context *context = context_current();
    uint64_t number;
    result = last_launch(context, &number);
    return result ? result : readiness(context, number, copies_done_ns());
}

static int find_event(void *handle, struct event **event)
{
    *event = handle;
    return handle && (*event)->magic == EVENT_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int event_capture(void *handle, struct capture **capture)
{
    struct event *event;
    int result = find_event(handle, &event);
    if (!result)
        *capture = event->capture;
    return result;
}

int event_create(void **handle)
{
    struct context *context = context_current();
    int result = context_check(context);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    *event = (struct event){EVENT_MAGIC, context, 0, 0, NULL};
    *handle = event;
    return CUDA_SUCCESS;
}

int event_destroy(void *handle)
{
    struct event *event;
    int result = find_event(handle, &event);
    if (!result)
        event->magic = 0; /* kept, as streams are */
    return result;
}

int event_record(void *handle, void *stream_handle)
{
    struct event *event;
    struct stream *stream;
    int result = find_event(handle, &event);
    if (!result)
        result = stream_find(stream_handle, &stream);
    uint64_t number = 0;
    if (!result)
        result = stream ? context_check(event->context) : last_launch(event->context, &number);
    if (result)
        return result;
    event->capture = graph_of(stream) ? stream->capture : NULL;
    event->after_launch = stream ? stream->last_launch : number;
    event->copies_done_ns = stream ? stream->copies_done_ns : copies_done_ns();
    return CUDA_SUCCESS;
}

int event_wait(void *handle)
{
    struct event *event;
    int result = find_event(handle, &event);
    if (!result && event->capture)
        result = CUDA_ERROR_CAPTURED_EVENT;
    if (!result)
        result = wait_for_launch(event->context, event->after_launch);
    return result ? result : wait_for_copies(event->copies_done_ns);
}

int event_query(void *handle)
{
    struct event *event;
    int result = find_event(handle, &event);
    return result ? result : readiness(event->context, event->after_launch, event->copies_done_ns);
}
