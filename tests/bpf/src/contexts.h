/* Rows of calls.c for contexts. */

/* What is current decides which device a call goes to; a free goes to the device of its allocation. */
static void contexts(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        han two, three, four, other = NULL;
        ptr block, left;
        CALL(cuCtxCreate_v2, 0, NULL, NULL, 0, 12, &two, 0, 12);
        CALL(cuCtxCreate_v3, 0, NULL, NULL, 0, 13, &three, NULL, 0, 0, 13);
        CALL(cuCtxCreate_v4, 0, NULL, NULL, 0, 14, &four, NULL, 0, 14);
        CALL(cuMemAlloc_v2, 4099, NULL, NULL, 0, 14, &block, 4099);
        CALL(cuMemAlloc_v2, 2053, NULL, NULL, 0, 14, &left, 2053);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 14, &other);
        CALL(cuMemFree_v2, 4099, NULL, NULL, 0, 14, block);
        CALL(cuCtxDestroy_v2, 2053, NULL, NULL, 0, 14, four);
        CALL(cuMemFree_v2, 0, NULL, NULL, 0, 14, left); /* went with its context */
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 13);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 13, &other);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, 13, three);
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, 12, two);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 12, &other);
        answer_with(FAILED); /* changes nothing */
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, 12, three);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 12, &other);
        CALL(cuCtxCreate_v2, 0, NULL, NULL, 0, 15, &other, 0, 15);
        answer_with(0);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxDestroy_v2, 0, NULL, NULL, 0, 13, three); /* not the current one */
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, NOWHERE, (han)0x9999); /* a context nobody saw being made */
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, NOWHERE);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, NOWHERE, &other);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, HOME);
        CALL(cuCtxDestroy_v2, 0, NULL, NULL, 0, 12, two);
    }
}

/* A green context has a device, and so has the context that it is used through, until it is destroyed. */
static void green_contexts(void)
{
    enum { AGAIN = HOME + 64 }; /* the device whose context has the address that comes of converting home's */
    han home = (han)(uintptr_t)(0x1000 + HOME);
    for (unsigned round = 0; round < ROUNDS; round++) {
        han green, context, other = NULL, unseen = (han)0x9990;
        CALL(cuGreenCtxCreate, 0, NULL, NULL, 0, 16, &green, NULL, 16, 1);
        CALL(cuCtxFromGreenCtx, 0, NULL, green, 0, 16, &context, green);
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, 16, context);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 16);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 16, &other);
        answer_with(FAILED);
        CALL(cuGreenCtxDestroy, 0, NULL, NULL, 0, HOME, green);
        answer_with(0);
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, 16, context);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 16, &other);
        CALL(cuGreenCtxDestroy, 0, NULL, NULL, 0, 16, green);
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, NOWHERE, context);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, NOWHERE, &other);
        CALL(cuCtxFromGreenCtx, 0, NULL, unseen, 0, NOWHERE, &context, unseen); /* nobody saw it being made */
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, HOME);
        CALL(cuDevicePrimaryCtxRetain, 0, NULL, NULL, 0, AGAIN, &other, AGAIN);
        CALL(cuCtxFromGreenCtx, 0, NULL, home, 0, HOME, &context, home); /* the address was another's */
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, context == other ? HOME : NOWHERE, context);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, HOME, &other);
    }
}
