/* loop ROUNDS THREADS [wait]: THREADS threads each launch and synchronise ROUNDS times on device 0.
 * With "wait" it says so after its context is made, and waits for a line before each of two halves. */
#include "api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rounds;
static han context;

static void *work(void *unused)
{
    cuCtxSetCurrent(context);
    for (int i = 0; i < rounds; i++) {
        cuLaunchKernel(NULL, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        cuStreamSynchronize(NULL);
    }
    return unused;
}

static void half(int threads)
{
    pthread_t ids[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

int main(int count, char **arguments)
{
    ptr block;
    rounds = atoi(arguments[1]);
    int threads = atoi(arguments[2]);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuMemAlloc_v2(&block, 1000003);
    for (int i = 0; i < (count > 3 ? 2 : 1); i++) {
        if (count > 3) {
            puts("waiting");
            fflush(stdout);
            getchar();
        }
        half(threads);
    }
    return 0;
}
