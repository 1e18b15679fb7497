/* phases PHASES THREADS ROUNDS: before each phase it says "waiting" and waits for a line; then THREADS threads each
 * make ROUNDS rounds of 5 launches, of which one fails, an allocation and its free, and a wait. */
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
        ptr block;
        for (int launch = 0; launch < 5; launch++) {
            answer_with(launch == 3 ? 700 : 0);
            cuLaunchKernel((void *)(long)(1 + launch % 2), 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        }
        answer_with(0);
        cuMemAlloc_v2(&block, 1009);
        cuMemFree_v2(block);
        cuStreamSynchronize(NULL);
    }
    return unused;
}

int main(int count, char **arguments)
{
    ptr block;
    int phases = atoi(arguments[1]), threads = count > 2 ? atoi(arguments[2]) : 1;
    rounds = atoi(arguments[3]);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuMemAlloc_v2(&block, 1000003);
    for (int phase = 0; phase < phases; phase++) {
        pthread_t ids[64];
        puts("waiting");
        fflush(stdout);
        getchar();
        for (int i = 0; i < threads; i++)
            pthread_create(&ids[i], NULL, work, NULL);
        for (int i = 0; i < threads; i++)
            pthread_join(ids[i], NULL);
    }
    puts("waiting");
    fflush(stdout);
    getchar();
    return 0;
}
