#include "gpud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number_of(const char *key, const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || *end || !*text || *text == '-')
        fail("not a number", key);
    return value;
}

static void parse_uuid(const char *text, uint8_t *uuid)
{
    if (strlen(text) != 2 * UUID_BYTES || strspn(text, "0123456789abcdef") != 2 * UUID_BYTES)
        fail("uuid is not 32 lower-case hex digits", text);
    for (int i = 0; i < UUID_BYTES; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        uuid[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

static void set_field(struct device_spec *spec, const char *key, const char *value)
{
    if (!strcmp(key, "uuid"))
        parse_uuid(value, spec->uuid);
    else if (!strcmp(key, "name"))
        snprintf(spec->name, sizeof spec->name, "%s", value);
    else if (!strcmp(key, "mode") && !strcmp(value, "exclusive"))
        spec->scheduling = SCHED_EXCLUSIVE;
    else if (!strcmp(key, "mode") && !strcmp(value, "time_sliced"))
        spec->scheduling = SCHED_TIME_SLICED;
    else if (!strcmp(key, "mode") && !strcmp(value, "mps"))
        spec->scheduling = SCHED_MPS;
    else if (!strcmp(key, "sms"))
        spec->sms = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "memory_bytes"))
        spec->memory_bytes = number_of(key, value);
    else if (!strcmp(key, "context_bytes"))
        spec->context_bytes = number_of(key, value);
    else if (!strcmp(key, "quantum_ns"))
        spec->quantum_ns = number_of(key, value);
    else if (!strcmp(key, "switch_ns"))
        spec->switch_ns = number_of(key, value);
    else if (!strcmp(key, "idle_power_mw"))
        spec->idle_power_mw = number_of(key, value);
    else if (!strcmp(key, "max_power_mw"))
        spec->max_power_mw = number_of(key, value);
    else if (!strcmp(key, "compute_major"))
        spec->compute_major = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "compute_minor"))
        spec->compute_minor = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "mig_parent"))
        spec->mig_parent = (uint32_t)number_of(key, value) + 1;
    else if (!strcmp(key, "minor"))
        spec->minor = (uint32_t)number_of(key, value) + 1;
    else if (!strcmp(key, "gpu_instance"))
        spec->gpu_instance = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "compute_instance"))
        spec->compute_instance = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "slices"))
        spec->slices = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "placement_start"))
        spec->placement_start = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "placement_size"))
        spec->placement_size = (uint32_t)number_of(key, value);
    else if (!strcmp(key, "profile"))
        snprintf(spec->profile, sizeof spec->profile, "%s", value);
    else if (!strcmp(key, "gpm"))
        spec->gpm = (uint32_t)number_of(key, value);
    else
        fail("unknown device field or value", key);
}

void add_device(struct model *model, char *text)
{
    if (model->device_count == MAX_DEVICES)
        fail("too many devices", text);
    struct device_spec spec = {.index = model->device_count, .scheduling = SCHED_TIME_SLICED};
    for (char *field; (field = strsep(&text, ";"));) {
        char *value = strchr(field, '=');
        if (!value)
            fail("a device field has no value", field);
        *value = 0;
        set_field(&spec, field, value + 1);
    }
    if (!spec.sms || !spec.memory_bytes || !spec.quantum_ns || spec.max_power_mw < spec.idle_power_mw)
        fail("a device needs sms, memory_bytes, quantum_ns and max_power_mw >= idle_power_mw", spec.name);
    if (spec.mig_parent && (spec.mig_parent > model->device_count || model->devices[spec.mig_parent - 1].spec.mig_parent))
        fail("a MIG instance comes after the whole GPU that it lies on", spec.name);
    device_init(&model->devices[model->device_count++], &spec);
}

