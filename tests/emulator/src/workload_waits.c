/* Streams, graphs, and the ways in which a program learns that its work is done. */
#include "workload.h"

#include <string.h>
#include <time.h>

enum { MOST_STREAMS = 16, MOST_NODES = 64, NOT_READY = 600, BLOCK_THREADS = 256 };

#define POLL_US 100.0
#define GRAPH_FUNCTION 0x400u

int cuGraphCreate(void **graph, unsigned flags);
int cuGraphAddKernelNode_v2(void **node, void *graph, const void **after, size_t after_count, const void *parameters);
int cuGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags);
int cuGraphLaunch(void *instance, void *stream);

struct node_parameters { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel, *context;
};

bool known_sync(const char *name)
{
    static const char *const names[] = {"stream", "context", "event", "poll-stream", "poll-event"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

bool usable_graph(const struct options *options)
{
    return options->streams <= MOST_STREAMS && (!options->graph || (options->burst <= MOST_NODES && !options->streams));
}

void *next_stream(const struct options *options)
{
    static void *streams[MOST_STREAMS];
    static unsigned turn;
    if (!options->streams)
        return NULL;
    void **stream = &streams[turn++ % options->streams];
    if (!*stream)
        check(cuStreamCreate(stream, 1), "cuStreamCreate");
    return *stream;
}

static void poll_until_done(int (*query)(void *), void *handle, const char *call)
{
    for (int result; (result = query(handle)) && !stopped();) {
        if (result != NOT_READY)
            check(result, call);
        struct timespec t = {0, (long)(POLL_US * 1e3)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
}

/* An event behind all that was launched so far. */
static void *recorded_event(void)
{
    static void *event;
    if (!event)
        check(cuEventCreate(&event, 0), "cuEventCreate");
    check(cuEventRecord(event, NULL), "cuEventRecord");
    return event;
}

void synchronise(const struct options *options, struct tally *tally)
{
    if (!strcmp(options->sync, "event"))
        check(cuEventSynchronize(recorded_event()), "cuEventSynchronize");
    else if (!strcmp(options->sync, "poll-event"))
        poll_until_done(cuEventQuery, recorded_event(), "cuEventQuery");
    else if (!strcmp(options->sync, "poll-stream"))
        poll_until_done(cuStreamQuery, NULL, "cuStreamQuery");
    else if (!strcmp(options->sync, "context") || options->streams)
        check(cuCtxSynchronize(), "cuCtxSynchronize");
    else
        check(cuStreamSynchronize(NULL), "cuStreamSynchronize");
    tally->synchronisations++;
}

/* Made once: a graph's kernels keep their durations. */
static void *graph_of(const struct options *options)
{
    static struct kernel kernels[MOST_NODES];
    static void *parameters[MOST_NODES][1], *instance;
    if (instance)
        return instance;
    void *graph, *node;
    check(cuGraphCreate(&graph, 0), "cuGraphCreate");
    for (unsigned i = 0; i < options->burst; i++) {
        kernels[i] = kernel_of(options, options->duration_us);
        parameters[i][0] = &kernels[i];
        unsigned blocks = (options->launch_threads + BLOCK_THREADS - 1) / BLOCK_THREADS;
        struct node_parameters one = {.function = (void *)(uintptr_t)(GRAPH_FUNCTION + i),
                                      .grid = {blocks, 1, 1},
                                      .block = {BLOCK_THREADS, 1, 1},
                                      .parameters = parameters[i]};
        check(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one), "cuGraphAddKernelNode_v2");
    }
    check(cuGraphInstantiateWithFlags(&instance, graph, 0), "cuGraphInstantiateWithFlags");
    return instance;
}

void launch_graph(const struct options *options, struct tally *tally)
{
    check(cuGraphLaunch(graph_of(options), NULL), "cuGraphLaunch");
    tally->launches++;
    tally->work_ns += options->burst * (uint64_t)(options->duration_us * 1e3);
}
