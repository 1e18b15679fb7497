/* The C ABI of libcuda.so.1: modules, whose code is not looked at, and graphs of kernels and copies, which run one
 * after the other. */
#include "cuda_abi.h"
#include "cuda_work.h"
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 64 };

struct node_parameters { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters;
};

struct node {
    const void *function;
    uint64_t blocks, block_threads;
    void **parameters;
    struct kernel asked; /* what a captured launch was given, whose caller keeps it no longer */
    uint64_t copied_bytes, bytes_per_s; /* of a copy, else 0 */
};

struct graph {
    struct node nodes[MOST_NODES];
    int count;
};

static uint64_t volume(const unsigned shape[3])
{
    return (uint64_t)shape[0] * shape[1] * shape[2];
}

EXPORT CUresult cuModuleLoadData(void **module, const void *image)
{
    int result = context_check(context_current());
    if (result)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = calloc(1, sizeof(struct graph)); /* some address of its own */
    return CUDA_SUCCESS;
}

/* A function is known by its name's first letter alone: enough to tell two apart. */
EXPORT CUresult cuModuleGetFunction(void **function, void *module, const char *name)
{
    if (!function || !module || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (char *)module + *name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(void *module)
{
    free(module);
    return CUDA_SUCCESS;
}

struct graph *graph_new(void)
{
    return calloc(1, sizeof(struct graph));
}

EXPORT CUresult cuGraphCreate(void **graph, unsigned flags)
{
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = graph_new();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddKernelNode_v2(void **node, void *handle, const void **after, size_t after_count,
                                        const struct node_parameters *parameters)
{
    struct graph *graph = handle;
    (void)after, (void)after_count;
    if (!graph || !parameters || graph->count == MOST_NODES)
        return CUDA_ERROR_INVALID_VALUE;
    graph->nodes[graph->count] = (struct node){.function = parameters->function,
                                               .blocks = volume(parameters->grid),
                                               .block_threads = volume(parameters->block),
                                               .parameters = parameters->parameters};
    *node = &graph->nodes[graph->count++];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags)
{
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *instance = malloc(sizeof(struct graph));
    memcpy(*instance, graph, sizeof(struct graph));
    return CUDA_SUCCESS;
}

int graph_add_launch(struct graph *graph, const void *function, uint64_t blocks, uint64_t block_threads,
                     void **parameters)
{
    if (graph->count == MOST_NODES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct node *node = &graph->nodes[graph->count++];
    *node = (struct node){.function = function, .blocks = blocks, .block_threads = block_threads};
    if (parameters && parameters[0])
        memcpy(&node->asked, parameters[0], sizeof node->asked.magic);
    if (node->asked.magic == KERNEL_MAGIC)
        memcpy(&node->asked, parameters[0], sizeof node->asked);
    return CUDA_SUCCESS;
}

int graph_add_copy(struct graph *graph, uint64_t bytes, uint64_t bytes_per_s)
{
    if (graph->count == MOST_NODES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->nodes[graph->count++] = (struct node){.copied_bytes = bytes, .bytes_per_s = bytes_per_s};
    return CUDA_SUCCESS;
}

static int launch_all(const struct graph *graph, void *stream)
{
    if (!graph)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = context_check(context_current());
    for (int i = 0; !result && i < graph->count; i++) {
        const struct node *node = &graph->nodes[i];
        void *kept[] = {(void *)&node->asked};
        void **parameters = node->parameters ? node->parameters : kept;
        if (node->bytes_per_s)
            result = copy_start(node->copied_bytes, node->bytes_per_s, stream);
        else
            result = launch(node->function, node->blocks, node->block_threads, stream, parameters);
    }
    return result;
}

EXPORT CUresult cuGraphLaunch(void *instance, void *stream)
{
    return launch_all(instance, stream);
}

EXPORT CUresult cuGraphLaunch_ptsz(void *instance, void *stream)
{
    return launch_all(instance, stream);
}

EXPORT CUresult cuGraphExecDestroy(void *instance)
{
    free(instance);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(void *graph)
{
    free(graph);
    return CUDA_SUCCESS;
}
