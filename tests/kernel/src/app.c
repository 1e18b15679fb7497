/* A prime number of each ioctl on the device nodes, then waits for a line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "uvm.h"

#define RM(number, bytes) _IOC(_IOC_READ | _IOC_WRITE, 'F', number, bytes)

static void times(int count, int file, unsigned long command, void *argument)
{
    for (int i = 0; i < count; i++)
        if (ioctl(file, command, argument) < 0 && (command & 0xff) != 0x7f)
            exit(2);
}

/* An ioctl as a 32-bit program makes it; what it points at lies below 4 GiB in a program linked statically. */
static void times_of_32_bit(int count, int file, unsigned command)
{
    static char parameters[64];
    for (int i = 0; i < count; i++) {
        long result = 54; /* ioctl in arch/x86/entry/syscalls/syscall_32.tbl */
        __asm__ volatile("int $0x80"
                         : "+a"(result)
                         : "b"((long)file), "c"((long)command), "d"((long)parameters)
                         : "memory", "r8", "r9", "r10", "r11");
        if ((int)result < 0)
            exit(3);
    }
}

static void maps(int count, int file, size_t bytes)
{
    for (int i = 0; i < count; i++)
        if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED)
            exit(4);
}

int main(void)
{
    char parameters[64] = {0};
    struct {
        unsigned number, bytes;
        void *argument;
    } envelope = {0x2a, 32, parameters};
    int first = open("/dev/nvidia0", O_RDWR), second = open("/dev/nvidia1", O_RDWR);
    int control = open("/dev/nvidiactl", O_RDWR), uvm = open("/dev/nvidia-uvm", O_RDWR);
    if (first < 0 || second < 0 || control < 0 || uvm < 0)
        return 1;
    times(101, control, RM(0x2a, 32), parameters); /* RM_CONTROL */
    times(43, control, RM(0x2b, 48), parameters);  /* RM_ALLOC */
    times(41, control, RM(0x29, 16), parameters);  /* RM_FREE */
    times(17, first, RM(0x4e, 56), parameters);    /* RM_MAP_MEMORY */
    times(3, second, RM(0x57, 48), parameters);    /* RM_MAP_MEMORY_DMA, 2 ms each */
    times(13, first, RM(211, 16), &envelope);      /* RM_CONTROL in an envelope */
    times(7, first, RM(200, 72), parameters);      /* CARD_INFO */
    times(5, first, RM(0x7f, 4), parameters);      /* refused */
    times_of_32_bit(19, second, RM(0x2a, 32));     /* RM_CONTROL */
    times_of_32_bit(23, uvm, UVM_INITIALIZE);
    maps(11, first, 3 * 4096);
    maps(1, second, 2 << 20);
    times(1, control, RM(0x7d, 4), (void *)79); /* two errors */
    times(1, control, RM(0x7d, 4), (void *)31);
    times(1, uvm, UVM_INITIALIZE, parameters);
    for (int gpu = 0; gpu < 2; gpu++) {
        struct register_gpu registration = {.smc_partition = (unsigned)gpu};
        for (int i = 0; i < 16; i++)
            registration.uuid[i] = (unsigned char)(16 * gpu + i);
        times(1, uvm, UVM_REGISTER_GPU, &registration);
    }
    puts("done");
    fflush(stdout);
    getchar();
    return 0;
}
