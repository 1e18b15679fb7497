/* Rows of calls.c for what is queued to a stream and is neither a launch nor a plain copy. */

struct operand { /* CUmemcpy3DOperand */
    u32 type;       /* 1 an address, 2 an array */
    size_t rest[4]; /* address, elements of a row, rows of a layer, where it is likely to be */
};

struct operation { /* CUDA_MEMCPY3D_BATCH_OP */
    struct operand from, to;
    size_t extent[3];
    u32 order, flags;
};

struct decompressed { /* CUmemDecompressParams */
    size_t from_bytes, to_bytes;
    void *places[3];
    u32 algorithm;
    unsigned char padding[20];
};

static void queued_copies(void)
{
    struct operation many[263];
    struct operation regions[3] = {{{1, {0}}, {1, {0}}, {1009, 7, 3}, 0, 0},
                                   {{2, {0}}, {1, {0}}, {101, 5, 2}, 0, 0}, /* elements of an array */
                                   {{1, {0}}, {1, {0}}, {211, 2, 1}, 0, 0}};
    struct decompressed list[3] = {{11, 1009, {0}, 1, {0}}, {13, 2003, {0}, 1, {0}}, {17, 3001, {0}, 1, {0}}};
    size_t sizes[3] = {4099, 4100, 4101}, none[1] = {0}, n = 1000003;
    ptr places[3] = {1, 2, 3};
    unsigned long long flat = 1009ull * 7 * 3 + 211ull * 2;
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = regions[0];
    BOTH(cuMemcpy3DBatchAsync, _ptsz, flat, STREAM, NULL, 0, 3, regions, none, 0, STREAM)
    BOTH(cuMemcpy3DBatchAsync_v2, _ptsz, flat, STREAM, NULL, 0, 3, regions, 0, STREAM)
    ROW(cuMemcpy3DBatchAsync_v2, 256 * 1009ull * 7 * 3, STREAM, NULL, 0, 263, many, 0, STREAM)
    BOTH(cuMemcpy3DWithAttributesAsync, _ptsz, 1009 * 7 * 3, STREAM, NULL, 0, regions, 0, STREAM)
    BOTH(cuMemcpyWithAttributesAsync, _ptsz, n + round, STREAM, NULL, 0, 1, 2, n + round, NULL, STREAM)
    BOTH(cuMemPrefetchBatchAsync, _ptsz, 12300, STREAM, NULL, 0, places, sizes, 3, NULL, none, 1, 0, STREAM)
    BOTH(cuMemDiscardAndPrefetchBatchAsync, _ptsz, 12300, STREAM, NULL, 0, places, sizes, 3, NULL, none, 1, 0, STREAM)
    BOTH(cuMemDiscardBatchAsync, _ptsz, 12300, STREAM, NULL, 0, places, sizes, 3, 0, STREAM)
    BOTH(cuMemBatchDecompressAsync, _ptsz, 6013, STREAM, NULL, 0, list, 3, 0, none, STREAM)
    BOTH(cuFabricCpyBatchAsync, _ptsz, 0, STREAM, NULL, 0, 3, NULL, 0, STREAM)
    BOTH(cuMemMapArrayAsync, _ptsz, 0, STREAM, NULL, 0, NULL, 3, STREAM)
}

static void queued(void)
{
    han one[1] = {FUNCTION};
    void (*function)(void *) = (void (*)(void *))FUNCTION;
    queued_copies();
    BOTH(cuGraphUpload, _ptsz, 0, STREAM, FUNCTION, 0, FUNCTION, STREAM)
    BOTH(cuLaunchHostFunc_v2, _ptsz, 0, STREAM, FUNCTION, 0, STREAM, function, NULL, 0)
    BOTH(cuStreamAddCallback, _ptsz, 0, STREAM, FUNCTION, 0, STREAM, function, NULL, 0)
    BOTH(cuStreamBatchMemOp, _ptsz, 0, STREAM, NULL, 0, STREAM, 3, NULL, 0)
    BOTH(cuStreamBatchMemOp_v2, _ptsz, 0, STREAM, NULL, 0, STREAM, 3, NULL, 0)
    BOTH(cuStreamWriteValue32, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWriteValue32_v2, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWriteValue64, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWriteValue64_v2, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWaitValue32, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWaitValue32_v2, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWaitValue64, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuStreamWaitValue64_v2, _ptsz, 0, STREAM, NULL, 0, STREAM, 1, 7, 0)
    BOTH(cuSignalExternalSemaphoresAsync, _ptsz, 0, STREAM, NULL, 0, one, NULL, 1, STREAM)
    BOTH(cuWaitExternalSemaphoresAsync, _ptsz, 0, STREAM, NULL, 0, one, NULL, 1, STREAM)
    ROW(cuCtxRecordEvent, 0, NULL, NULL, 0, FUNCTION, STREAM)
    ROW(cuCtxWaitEvent, 0, NULL, NULL, 0, FUNCTION, STREAM)
    ROW(cuGreenCtxRecordEvent, 0, NULL, NULL, 0, FUNCTION, STREAM)
    ROW(cuGreenCtxWaitEvent, 0, NULL, NULL, 0, FUNCTION, STREAM)
}
