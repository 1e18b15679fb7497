/* Time slices: one process at a time, round robin. An exclusive device has only one to choose. */
#include "model.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Round robin from the process that ran last; false when nobody can run. */
static bool choose_client(struct device *device, uint64_t at_ns)
{
    uint32_t used = device->clients_used;
    uint32_t first = (uint32_t)(device->current + 1);
    for (uint32_t k = 0; k < used; k++) {
        uint32_t i = (first + k) % used;
        if (!client_runnable(&device->clients[i], at_ns))
            continue;
        if ((int32_t)i != device->current)
            device->switch_left_ns = device->spec.switch_ns;
        device->current = (int32_t)i;
        device->slice_left_ns = device->spec.quantum_ns;
        return true;
    }
    return false;
}

/* One step of whoever has the time slice, at most `span_ns` long; 0 where nobody has work. */
uint64_t slice_step(struct device *device, uint64_t span_ns)
{
    uint64_t at_ns = device->now_ns;
    bool keeps_slice = device->current >= 0 && device->slice_left_ns > 0 &&
                       client_runnable(&device->clients[device->current], at_ns);
    if (!keeps_slice && !choose_client(device, at_ns))
        return 0;
    if (device->switch_left_ns) {
        span_ns = least(span_ns, device->switch_left_ns);
        device->switch_left_ns -= span_ns;
    } else {
        struct client *client = &device->clients[device->current];
        span_ns = least(span_ns, device->slice_left_ns);
        span_ns = least(span_ns, client_first_launch(client)->end_work_ns - client->done_ns);
        device->slice_left_ns -= span_ns;
        client_run(device, client, span_ns, client_first_launch(client)->work.sms * SM_PARTS, span_ns);
    }
    device->total.busy_ns += span_ns;
    return span_ns;
}
