/* Visible devices and contexts of this process. */
#include "cuda_context.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_DEPTH = 32 };

static struct model *model;
static int visible[MAX_DEVICES], visible_count;
static struct context *primary[MAX_DEVICES];
static int contexts_on[MAX_DEVICES]; /* living contexts by ordinal */
static struct client *clients[MAX_DEVICES];
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t generation = 1; /* counts forks: what a thread remembers from before one is void */
static __thread struct context *stack[STACK_DEPTH];
static __thread int stack_size;
static __thread uint32_t stack_generation;

void process_enter(void)
{
    pthread_mutex_lock(&process_lock);
}

void process_leave(void)
{
    pthread_mutex_unlock(&process_lock);
}

/* Contexts do not survive a fork: the child starts anew, and the parent's stay the parent's. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&process_lock, NULL);
    model = NULL;
    visible_count = 0;
    memset(primary, 0, sizeof primary);
    memset(contexts_on, 0, sizeof contexts_on);
    memset(clients, 0, sizeof clients);
    generation++;
    memory_forget();
}

static void uuid_text(const uint8_t *uuid, bool is_instance, char text[41])
{
    int at = sprintf(text, is_instance ? "MIG-" : "GPU-");
    for (int i = 0; i < UUID_BYTES; i++)
        at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* The index that a CUDA_VISIBLE_DEVICES item names, or -1: a decimal index, or the start of one UUID only. */
static int find_visible(const char *item)
{
    int count = (int)model->device_count;
    if (isdigit((unsigned char)*item)) {
        char *end;
        long index = strtol(item, &end, 10);
        return *end || index >= count ? -1 : (int)index;
    }
    int found = -1;
    if (strlen(item) <= strlen("GPU-") || (strncmp(item, "GPU-", 4) && strncmp(item, "MIG-", 4)))
        return -1;
    for (int i = 0; i < count; i++) {
        char text[41];
        uuid_text(model->devices[i].spec.uuid, model->devices[i].spec.mig_parent, text);
        if (strncasecmp(text, item, strlen(item)))
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

static void read_visible(void)
{
    visible_count = 0;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (uint32_t i = 0; i < model->device_count; i++)
            visible[visible_count++] = (int)i;
        return;
    }
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", list);
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ","));) {
        while (isspace((unsigned char)*item))
            item++;
        item[strcspn(item, " \t")] = 0;
        int index = find_visible(item);
        if (index < 0)
            return; /* the first invalid item cuts the list */
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == index) {
                visible_count = 0; /* a device named twice: none is visible */
                return;
            }
        visible[visible_count++] = index;
    }
}

int state_init(void)
{
    static bool registered;
    process_enter();
    if (!registered) {
        registered = true;
        pthread_atfork(NULL, NULL, after_fork_in_child);
    }
    if (!model && (model = model_open()))
        read_visible();
    int result = model && visible_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    process_leave();
    return result;
}

static int ready(void)
{
    if (!model || !visible_count)
        return CUDA_ERROR_NOT_INITIALIZED;
    return model_alive(model) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

int state_device_count(int *count)
{
    int result = ready();
    if (!result)
        *count = visible_count;
    return result;
}

int state_device(int ordinal, struct device **device)
{
    int result = ready();
    if (result)
        return result;
    if (ordinal < 0 || ordinal >= visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = &model->devices[visible[ordinal]];
    return CUDA_SUCCESS;
}

/* Holds the process lock. A context is never freed, so that a stale handle is found out. */
static int make_context(int ordinal, bool is_primary, struct context **made)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (result)
        return result;
    if (!contexts_on[ordinal]) {
        device_lock(device);
        bool taken = device_exclusive_taken(device);
        clients[ordinal] = taken ? NULL : client_open(model, device, getpid(), monotonic_ns());
        if (clients[ordinal])
            clients[ordinal]->thread_percentage = mps_thread_percentage();
        device_unlock(device);
        if (!clients[ordinal])
            return taken ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct context *context = calloc(1, sizeof *context);
    *context = (struct context){ordinal, device, clients[ordinal], clients[ordinal]->serial, true, is_primary, 0, NULL};
    contexts_on[ordinal]++;
    *made = context;
    return CUDA_SUCCESS;
}

static void end_context(struct context *context)
{
    memory_free_all(context);
    context->alive = false;
    if (--contexts_on[context->ordinal])
        return;
    device_lock(context->device);
    if (context->client->serial == context->client_serial)
        client_close(context->device, context->client, monotonic_ns());
    device_unlock(context->device);
    clients[context->ordinal] = NULL;
}

int context_retain_primary(int ordinal, struct context **context)
{
    process_enter();
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result && !primary[ordinal])
        result = make_context(ordinal, true, &primary[ordinal]);
    if (!result) {
        primary[ordinal]->references++;
        *context = primary[ordinal];
    }
    process_leave();
    return result;
}

int context_release_primary(int ordinal)
{
    process_enter();
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result && !primary[ordinal])
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result && --primary[ordinal]->references == 0) {
        end_context(primary[ordinal]);
        primary[ordinal] = NULL;
    }
    process_leave();
    return result;
}

int context_reset_primary(int ordinal)
{
    process_enter();
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result && primary[ordinal])
        memory_free_all(primary[ordinal]);
    process_leave();
    return result;
}

int context_make(int ordinal, struct context **context)
{
    process_enter();
    int result = make_context(ordinal, false, context);
    process_leave();
    return result;
}

int context_create(int ordinal, struct context **context)
{
    int result = context_make(ordinal, context);
    return result ? result : context_push(*context);
}

int context_check(struct context *context)
{
    int result = ready();
    if (result || !context)
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

int context_destroy(struct context *context)
{
    process_enter();
    int result = context_check(context);
    if (!result && context->primary)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        end_context(context);
    process_leave();
    if (!result && context_current() == context)
        stack_size--;
    return result;
}

static void forget_before_fork(void)
{
    if (stack_generation != generation)
        stack_size = 0;
    stack_generation = generation;
}

struct context *context_current(void)
{
    forget_before_fork();
    return stack_size ? stack[stack_size - 1] : NULL;
}

int context_set_current(struct context *context)
{
    int result = context ? context_check(context) : ready();
    if (result)
        return result;
    forget_before_fork();
    if (!context)
        stack_size -= stack_size > 0;
    else {
        stack_size += stack_size == 0;
        stack[stack_size - 1] = context;
    }
    return CUDA_SUCCESS;
}

int context_push(struct context *context)
{
    int result = context_check(context);
    forget_before_fork();
    if (!result && stack_size == STACK_DEPTH)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        stack[stack_size++] = context;
    return result;
}

int context_pop(struct context **context)
{
    int result = ready();
    struct context *current = context_current();
    if (!result && !current)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    stack_size--;
    if (context)
        *context = current;
    return CUDA_SUCCESS;
}
