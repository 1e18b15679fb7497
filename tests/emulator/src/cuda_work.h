/* Between launches and the streams and events that wait for them. */
#ifndef GPUEMU_CUDA_WORK_H
#define GPUEMU_CUDA_WORK_H
#include "cuda_context.h"

struct capture;

struct stream {
    uint32_t magic;
    struct context *context;
    uint64_t last_launch; /* number of its last launch in the client's queue */
    uint64_t copies_done_ns;
    struct capture *capture; /* the last that it was part of */
};

int stream_find(void *handle, struct stream **stream); /* NULL for the default streams */
int wait_for_launch(struct context *context, uint64_t number);
int wait_for_copies(uint64_t done_ns);
int last_launch(struct context *context, uint64_t *number);
int launch_ready(struct context *context, uint64_t number);
uint64_t copies_done_ns(void); /* of all streams */
struct graph *graph_of(const struct stream *stream); /* that it is captured into, else NULL */
int event_capture(void *event, struct capture **capture); /* that its last record was part of */
int graph_add_launch(struct graph *graph, const void *function, uint64_t blocks, uint64_t block_threads,
                     void **parameters);
int graph_add_copy(struct graph *graph, uint64_t bytes, uint64_t bytes_per_s);

#endif
