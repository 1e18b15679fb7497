/* A module with the entry points of nvidia-uvm and no hardware. */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "uvm.h"

static dev_t number;
static struct cdev device;
static struct class *devices;

noinline int uvm_api_register_gpu(struct register_gpu *parameters, struct file *file)
{
    parameters->status = 0;
    return 0;
}

noinline long uvm_unlocked_ioctl_entry(struct file *file, unsigned command, unsigned long argument)
{
    struct register_gpu parameters;
    if (command == UVM_INITIALIZE)
        return 0;
    if (command != UVM_REGISTER_GPU)
        return -EINVAL;
    if (copy_from_user(&parameters, (void __user *)argument, sizeof(parameters)))
        return -EFAULT;
    return uvm_api_register_gpu(&parameters, file);
}

static int uvm_open_entry(struct inode *inode, struct file *file)
{
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = uvm_open_entry,
    .unlocked_ioctl = uvm_unlocked_ioctl_entry,
    .compat_ioctl = uvm_unlocked_ioctl_entry,
};

static int __init begin(void)
{
    int result = alloc_chrdev_region(&number, 0, 1, "nvidia-uvm");
    if (result)
        return result;
    cdev_init(&device, &operations);
    result = cdev_add(&device, number, 1);
    devices = class_create(THIS_MODULE, "uvm_stub");
    device_create(devices, NULL, number, NULL, "nvidia-uvm");
    return result;
}

static void __exit end(void)
{
    device_destroy(devices, number);
    class_destroy(devices);
    cdev_del(&device);
    unregister_chrdev_region(number, 1);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
