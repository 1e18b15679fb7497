/* Streams that are being captured: what is asked of them goes into a graph. */
#include "cuda_work.h"

#include <stdlib.h>

struct capture { /* kept, so that streams and events that were part of it find that it is over */
    struct stream *origin;
    struct graph *graph;
    bool over;
};

static bool goes_on(const struct capture *capture)
{
    return capture && !capture->over;
}

struct graph *graph_of(const struct stream *stream)
{
    return stream && goes_on(stream->capture) ? stream->capture->graph : NULL;
}

bool stream_is_captured(void *handle)
{
    struct stream *stream;
    return !stream_find(handle, &stream) && graph_of(stream);
}

int capture_begin(void *handle, struct graph *graph)
{
    struct stream *stream;
    int result = stream_find(handle, &stream);
    if (result)
        return result;
    if (!stream || !graph)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* of the default streams */
    if (graph_of(stream))
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = calloc(1, sizeof *stream->capture);
    *stream->capture = (struct capture){stream, graph, false};
    return CUDA_SUCCESS;
}

int capture_end(void *handle, struct graph **graph)
{
    struct stream *stream;
    int result = stream_find(handle, &stream);
    if (result)
        return result;
    if (!graph_of(stream))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    stream->capture->over = true;
    if (graph)
        *graph = stream->capture->graph;
    return CUDA_SUCCESS;
}

/* What waits for an event of a capture becomes part of it. */
int stream_wait_event(void *handle, void *event)
{
    struct stream *stream;
    struct capture *capture;
    int result = event_capture(event, &capture);
    if (!result)
        result = stream_find(handle, &stream);
    if (!result && stream && goes_on(capture) && !graph_of(stream))
        stream->capture = capture;
    return result;
}

/* What is allocated while its stream is captured is the graph's, and takes nothing of the device. */
int memory_allocate_on(void *handle, uint64_t bytes, uint64_t *address)
{
    return memory_allocate(stream_is_captured(handle) ? MEMORY_MANAGED : MEMORY_DEVICE, bytes, address);
}
