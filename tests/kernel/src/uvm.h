/* What uvm_ioctl.h of the driver's sources says: plain numbers, and the parameters of one ioctl. */
#define UVM_REGISTER_GPU 37
#define UVM_INITIALIZE 0x30000001

struct register_gpu {
    unsigned char uuid[16], numa_enabled;
    int numa_node, control_file;
    unsigned client, smc_partition, status;
};
