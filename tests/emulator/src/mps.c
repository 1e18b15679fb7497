/* MPS: processes run at the same time, each on a part of the multiprocessors.
 *
 * A launch gets the multiprocessors that it asks for, at most its process's thread percentage of all; where
 * all that run ask for more than there are, each gets its part of them in proportion. With fewer than it asks
 * for a launch takes longer by as much. */
#include "model.h"

#include <stdlib.h>

/* What CUDA_MPS_ACTIVE_THREAD_PERCENTAGE says in this process; 100 where it says nothing usable. */
uint32_t mps_thread_percentage(void)
{
    const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    long value = text ? strtol(text, NULL, 10) : 0;
    return value >= 1 && value <= 100 ? (uint32_t)value : 100;
}

/* In SM_PARTS, as all below. */
static uint64_t asked_parts(const struct device *device, struct client *client)
{
    uint64_t launch = client_first_launch(client)->work.sms * SM_PARTS;
    uint64_t allowed = device->spec.sms * SM_PARTS * client->thread_percentage / 100;
    return launch < allowed ? launch : allowed;
}

/* What a running process gets where `asked` are asked for in all. */
static uint64_t parts_of(const struct device *device, struct client *client, uint64_t asked)
{
    uint64_t all = device->spec.sms * SM_PARTS, mine = asked_parts(device, client);
    return asked > all ? mine * all / asked : mine;
}

/* Runs all that have work until the first of them finishes a launch, another's work arrives, or `span_ns` has
 * passed; the time that it took, 0 where nobody has work. */
uint64_t mps_step(struct device *device, uint64_t span_ns)
{
    uint64_t at_ns = device->now_ns, asked = 0;
    for (uint32_t i = 0; i < device->clients_used; i++)
        if (client_runnable(&device->clients[i], at_ns))
            asked += asked_parts(device, &device->clients[i]);
    if (!asked)
        return 0;
    uint64_t end_ns = device_next_arrival(device, at_ns, at_ns + span_ns);
    uint64_t parts[MAX_CLIENTS] = {0};
    for (uint32_t i = 0; i < device->clients_used; i++) {
        struct client *client = &device->clients[i];
        if (!client_runnable(client, at_ns))
            continue;
        struct launch *launch = client_first_launch(client);
        uint64_t whole = launch->work.sms * SM_PARTS;
        parts[i] = parts_of(device, client, asked);
        uint64_t left = (launch->end_work_ns - client->done_ns) * whole - client->done_rest;
        uint64_t needs_ns = (left + parts[i] - 1) / parts[i];
        if (at_ns + needs_ns < end_ns)
            end_ns = at_ns + needs_ns;
    }
    span_ns = end_ns - at_ns;
    for (uint32_t i = 0; i < device->clients_used; i++) {
        if (!parts[i])
            continue;
        struct client *client = &device->clients[i];
        uint64_t whole = client_first_launch(client)->work.sms * SM_PARTS;
        uint64_t done = span_ns * parts[i] + client->done_rest;
        client->done_rest = done % whole;
        client_run(device, client, span_ns, parts[i], done / whole);
    }
    device->total.busy_ns += span_ns;
    return span_ns;
}
