/* Rows of calls.c for streams that are captured: what is called on them did not run, and says so. */

#define OTHER ((han)0x52)
#define THIRD ((han)0x53)
#define EVENT ((han)0xe1)
#define PER_THREAD ((han)2) /* CU_STREAM_PER_THREAD */

enum { INVALIDATED = 901 };

#define ON(name, stream, threads) /* one launch, by the name of its function */                                      \
    CALL(name, 0, stream, FUNCTION, threads, HOME, FUNCTION, 2, 3, 5, 7, 11, 13, 0, stream, NULL, NULL);
#define RUNS(name, stream) ON(name, stream, 2 * 3 * 5 * 7 * 11 * 13)
#define CAPTURED(name, stream)                                                                                       \
    direction = ":CAPTURE";                                                                                          \
    ON(name, stream, 0)                                                                                              \
    direction = "";

/* Each kind of what a stream is asked for; none of it moves, fills or holds anything. */
static void captured_kinds(ptr held)
{
    struct config config = {{2, 3, 5}, {7, 11, 13}, 0, STREAM, NULL, 0};
    size_t sizes[1] = {4099}, none[1] = {0};
    ptr block = 0, places[1] = {1};
    han home[1] = {FUNCTION};
    direction = ":CAPTURE";
    ON(cuLaunchKernel, STREAM, 0)
    CALL(cuLaunchKernelEx, 0, STREAM, FUNCTION, 0, HOME, &config, FUNCTION, NULL, NULL);
    CALL(cuGraphLaunch, 0, STREAM, FUNCTION, 0, HOME, FUNCTION, STREAM);
    CALL(cuLaunchHostFunc, 0, STREAM, FUNCTION, 0, HOME, STREAM, (void (*)(void *))FUNCTION, NULL);
    CALL(cuMemcpyHtoDAsync_v2, 0, STREAM, NULL, 0, HOME, 1, NULL, 4099, STREAM);
    CALL(cuMemsetD32Async, 0, STREAM, NULL, 0, HOME, 1, 7, 4099, STREAM);
    CALL(cuMemcpyBatchAsync, 0, STREAM, NULL, 0, HOME, places, places, sizes, 1, NULL, none, 1, none, STREAM);
    CALL(cuMemAllocAsync, 0, STREAM, NULL, 0, HOME, &block, 4099, STREAM);
    CALL(cuMemFreeAsync, 0, STREAM, NULL, 0, HOME, block, STREAM);
    CALL(cuMemFreeAsync, 0, STREAM, NULL, 0, HOME, held, STREAM);
    CALL(cuSignalExternalSemaphoresAsync, 0, STREAM, NULL, 0, HOME, home, NULL, 1, STREAM);
    direction = "";
}

/* A stream that waits for what was recorded in the capture is part of it, others are not. */
static void captured_forks(void)
{
    RUNS(cuLaunchKernel, OTHER)
    direction = ":CAPTURE";
    CALL(cuEventRecord, 0, STREAM, NULL, 0, HOME, EVENT, STREAM);
    CALL(cuStreamWaitEvent, 0, OTHER, NULL, 0, HOME, OTHER, EVENT, 0);
    direction = "";
    CAPTURED(cuLaunchKernel, OTHER)
    RUNS(cuLaunchKernel, THIRD)
    RUNS(cuLaunchKernel, NULL)
    answer_with(FAILED);
    RUNS(cuLaunchKernel, STREAM)
    answer_with(0);
}

static void captured_end(void)
{
    RUNS(cuLaunchKernel, STREAM)
    RUNS(cuLaunchKernel, OTHER)
    CALL(cuStreamWaitEvent, 0, THIRD, NULL, 0, HOME, THIRD, EVENT, 0); /* recorded in a capture that is over */
    RUNS(cuLaunchKernel, THIRD)
}

static void captured_default_stream(void)
{
    cuStreamBeginCapture_v2_ptsz(NULL, 0);
    CAPTURED(cuLaunchKernel_ptsz, NULL)
    CAPTURED(cuLaunchKernel, PER_THREAD)
    RUNS(cuLaunchKernel, NULL)
    cuStreamEndCapture(PER_THREAD, NULL);
    RUNS(cuLaunchKernel_ptsz, NULL)
}

static void captures(void)
{
    ptr held;
    CALL(cuMemAllocAsync, 4099, STREAM, NULL, 0, HOME, &held, 4099, STREAM);
    for (unsigned round = 0; round < ROUNDS; round++) {
        han parameters = FUNCTION;
        answer_with(FAILED);
        cuStreamBeginCapture_v2(STREAM, 0);
        answer_with(0);
        RUNS(cuLaunchKernel, STREAM)
        cuStreamBeginCapture_v2(STREAM, 0);
        captured_kinds(held);
        captured_forks();
        answer_with(round % 2 ? INVALIDATED : 0);
        cuStreamEndCapture(STREAM, NULL);
        answer_with(0);
        captured_end();
        captured_default_stream();
        cuStreamBeginCapture(STREAM);
        CAPTURED(cuLaunchKernel, STREAM)
        RUNS(cuLaunchKernel, OTHER) /* of the capture before, not of this one */
        cuStreamDestroy_v2(STREAM);
        RUNS(cuLaunchKernel, STREAM)
        cuStreamBeginCaptureToGraph(OTHER, FUNCTION, NULL, NULL, 0, 0);
        CAPTURED(cuLaunchKernel, OTHER)
        cuStreamEndCapture_ptsz(OTHER, NULL);
        cuStreamBeginCaptureToCig(OTHER, &parameters);
        CAPTURED(cuLaunchKernel_ptsz, OTHER)
        cuStreamEndCaptureToCig(OTHER);
        cuStreamBeginRecaptureToGraph(OTHER, 0, FUNCTION, NULL, NULL);
        CAPTURED(cuLaunchKernel, OTHER)
        cuStreamEndCapture(OTHER, NULL);
        RUNS(cuLaunchKernel, OTHER)
    }
    CALL(cuMemFreeAsync, 4099, STREAM, NULL, 0, HOME, held, STREAM); /* no capture has freed it */
}
