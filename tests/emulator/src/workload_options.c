#include "workload.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "workload MODE [options]: a CUDA process of known demand on the emulated GPU\n"
    "\n"
    "modes\n"
    "  train   --burst launches of --duration-us, synchronise, pause --gap-us (+-20 %); again\n"
    "  infer   requests as a Poisson process of --rate a second: copy in, --burst launches, copy out\n"
    "  idle    a context and --memory, nothing else (warm idle)\n"
    "  hog     launches without pause, a copy out every --sync-every launches\n"
    "  tiny    --burst launches at an even --rate, synchronise every --sync-every bursts (0: never)\n"
    "  nosync  --burst launches every --gap-us, never synchronising\n"
    "  late    --burst launches, pause --gap-us, only then synchronise\n"
    "  count   an exact sequence of calls (README), --rounds times on each of --host-threads threads\n"
    "  variants  the less usual calls, each a prime number of times, --rounds times\n"
    "\n"
    "options (default)\n"
    "  --device N           ordinal as this process sees it (0)\n"
    "  --seconds S          how long, 0: until SIGTERM (0)\n"
    "  --memory BYTES       allocated at start; suffix K, M or G for powers of 1024 (512M)\n"
    "  --seed N             of jitter, gaps and arrivals (1)\n"
    "  --duration-us D      device time of one launch when it runs alone (1000)\n"
    "  --jitter J           standard deviation of the logarithm of the duration (0.05)\n"
    "  --burst N            launches in a row (20)\n"
    "  --gap-us G           pause between bursts (5000)\n"
    "  --rate R             bursts a second (50)\n"
    "  --sync-every N       (500)\n"
    "  --sync HOW           stream, context, event, or poll-stream, poll-event: asked each 100 us (stream)\n"
    "  --streams N          launches take turns among N streams, 0: the default stream (0)\n"
    "  --graph              each burst is one launch of a graph of --burst kernels, at most 64\n"
    "  --functions N        launches take turns among N functions (1)\n"
    "  --launch-threads N   threads of one launch, in blocks of 256 (65536)\n"
    "  --sms N              multiprocessors that a launch keeps active, 0: one a block, at most all (0)\n"
    "  --occupancy F        resident warps / possible warps there, 0: from the launch's size (0)\n"
    "  --tensor F           share of its time with the tensor pipe active (0)\n"
    "  --dram F             share of its time with the memory interface active (0)\n"
    "  --rounds N           of count (1)\n"
    "  --host-threads N     of count (1)\n"
    "  --via-proc-address   count calls through pointers from cuGetProcAddress_v2\n"
    "  --wait               before the first CUDA call print \"waiting\" and read a line of stdin\n"
    "\n"
    "It prints \"ready\" once its memory is allocated and, at its end, one JSON line of what it did. After\n"
    "--seconds it waits for its work (\"drained\"); on SIGTERM, or when its parent has gone, it drops what is\n"
    "queued. Exit status: 2 usage, 3 a call failed, 4 a count was wrong.\n";

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "workload: %s: %s (see workload --help)\n", what, value);
    exit(2);
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0))
        refuse("not a number >= 0", text);
    return value;
}

static double fraction(const char *text)
{
    double value = number(text);
    if (value > 1)
        refuse("not between 0 and 1", text);
    return value;
}

static uint64_t bytes(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    uint64_t unit = *end == 'K' ? 1ull << 10 : *end == 'M' ? 1ull << 20 : *end == 'G' ? 1ull << 30 : 1;
    if (end == text || !(value >= 0) || end[unit > 1])
        refuse("not a size", text);
    return (uint64_t)(value * (double)unit);
}

enum { DEVICE = 256, SECONDS, MEMORY, SEED, DURATION, JITTER, BURST, GAP, RATE, SYNC, FUNCTIONS, THREADS, SMS,
       OCCUPANCY, TENSOR, DRAM, ROUNDS, HOST_THREADS, PROC_ADDRESS, WAIT, SYNC_HOW, STREAMS, GRAPH, HELP };

static const struct option long_options[] = {
    {"device", 1, NULL, DEVICE},         {"seconds", 1, NULL, SECONDS},
    {"memory", 1, NULL, MEMORY},         {"seed", 1, NULL, SEED},
    {"duration-us", 1, NULL, DURATION},  {"jitter", 1, NULL, JITTER},
    {"burst", 1, NULL, BURST},           {"gap-us", 1, NULL, GAP},
    {"rate", 1, NULL, RATE},             {"sync-every", 1, NULL, SYNC},
    {"functions", 1, NULL, FUNCTIONS},   {"launch-threads", 1, NULL, THREADS},
    {"sms", 1, NULL, SMS},               {"occupancy", 1, NULL, OCCUPANCY},
    {"tensor", 1, NULL, TENSOR},         {"dram", 1, NULL, DRAM},
    {"rounds", 1, NULL, ROUNDS},         {"host-threads", 1, NULL, HOST_THREADS},
    {"via-proc-address", 0, NULL, PROC_ADDRESS}, {"wait", 0, NULL, WAIT},
    {"sync", 1, NULL, SYNC_HOW},         {"streams", 1, NULL, STREAMS},
    {"graph", 0, NULL, GRAPH},           {"help", 0, NULL, HELP},
    {NULL, 0, NULL, 0}};

static void set(struct options *options, int option, const char *text)
{
    switch (option) {
    case DEVICE: options->device = (int)number(text); break;
    case SECONDS: options->seconds = number(text); break;
    case MEMORY: options->memory_bytes = bytes(text); break;
    case SEED: options->seed = (uint64_t)number(text); break;
    case DURATION: options->duration_us = number(text); break;
    case JITTER: options->jitter = number(text); break;
    case BURST: options->burst = (unsigned)number(text); break;
    case GAP: options->gap_us = number(text); break;
    case RATE: options->rate = number(text); break;
    case SYNC: options->sync_every = (unsigned)number(text); break;
    case FUNCTIONS: options->functions = (unsigned)number(text); break;
    case THREADS: options->launch_threads = (unsigned)number(text); break;
    case SMS: options->sms = (unsigned)number(text); break;
    case OCCUPANCY: options->occupancy = fraction(text); break;
    case TENSOR: options->tensor = fraction(text); break;
    case DRAM: options->dram = fraction(text); break;
    case ROUNDS: options->rounds = (unsigned)number(text); break;
    case HOST_THREADS: options->host_threads = (unsigned)number(text); break;
    case PROC_ADDRESS: options->via_proc_address = true; break;
    case WAIT: options->wait = true; break;
    case SYNC_HOW: options->sync = text; break;
    case STREAMS: options->streams = (unsigned)number(text); break;
    case GRAPH: options->graph = true; break;
    case HELP: fputs(help, stdout); exit(0);
    default: exit(2);
    }
}

struct options options_parse(int argc, char **argv)
{
    struct options options = {.memory_bytes = 512ull << 20,
                              .seed = 1,
                              .duration_us = 1000,
                              .jitter = 0.05,
                              .burst = 20,
                              .gap_us = 5000,
                              .rate = 50,
                              .sync_every = 500,
                              .functions = 1,
                              .launch_threads = 65536,
                              .rounds = 1,
                              .host_threads = 1,
                              .sync = "stream"};
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;)
        set(&options, option, optarg);
    if (optind != argc - 1)
        refuse("exactly one mode is needed", optind < argc ? argv[argc - 1] : "none given");
    options.mode = argv[optind];
    if (!known_mode(options.mode))
        refuse("no such mode", options.mode);
    if (!known_sync(options.sync))
        refuse("no such way to synchronise", options.sync);
    if (!usable_graph(&options))
        refuse("too long for --graph, or --streams with it", "burst");
    if (!options.burst || !options.functions || !options.launch_threads || !options.host_threads || !options.rate)
        refuse("must be above 0", "burst, functions, launch-threads, host-threads, rate");
    return options;
}
