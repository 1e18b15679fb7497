/* A module with the entry points of the NVIDIA driver and no hardware. With FRONTEND it has the names of the
 * branches 515 to 535, where nvidia_frontend_* call nvidia_* behind them and 32-bit programs have an entry of their
 * own, else those of 545 and later. */
#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>

#define CREATE_TRACE_POINTS
#include "xid-trace.h"

#define MAJOR_NUMBER 195
#define REFUSED 0x7f /* the number of an ioctl that is answered with ENOTTY */
#define SLOW 0x57    /* one that takes 2 ms */
#define FAIL 0x7d    /* reports the error whose code is its argument */

#ifdef FRONTEND
#define ENTRY(name) nvidia_frontend_##name
#else
#define ENTRY(name) nvidia_##name
#endif

#ifdef TRACEPOINT
#define ERROR_FUNCTION report_without_a_known_name
#else
#define ERROR_FUNCTION nv_report_error
#endif

noinline void ERROR_FUNCTION(struct pci_dev *device, unsigned code, const char *text)
{
    trace_nvidia_dev_xid(device, code, text);
}

static const int minors[] = {0, 1, 255};
static struct cdev device;
static struct class *devices;

/* The first GPU is whatever the machine has first on its bus; the driver's own function of that name. */
static noinline void nv_report(unsigned code)
{
    struct pci_dev *device = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, NULL);
    if (device)
        ERROR_FUNCTION(device, code, "stub");
    pci_dev_put(device);
}

noinline long do_driver_ioctl(unsigned command, unsigned long argument)
{
    if (_IOC_NR(command) == FAIL)
        nv_report(argument);
    if (_IOC_TYPE(command) != 'F')
        return -EINVAL;
    if (_IOC_NR(command) == SLOW)
        usleep_range(2000, 2500);
    return _IOC_NR(command) == REFUSED ? -ENOTTY : 0;
}

#ifdef FRONTEND
noinline int nvidia_open(struct inode *inode, struct file *file)
{
    file->private_data = inode;
    return 0;
}

noinline int nvidia_close(struct inode *inode, struct file *file)
{
    file->private_data = NULL;
    return 0;
}

static int (*volatile behind_open)(struct inode *, struct file *) = nvidia_open;
static int (*volatile behind_close)(struct inode *, struct file *) = nvidia_close;

noinline int nvidia_frontend_open(struct inode *inode, struct file *file)
{
    return behind_open(inode, file);
}

noinline int nvidia_frontend_close(struct inode *inode, struct file *file)
{
    return behind_close(inode, file);
}
#else
noinline int nvidia_open(struct inode *inode, struct file *file)
{
    file->private_data = inode;
    return 0;
}

noinline int nvidia_close(struct inode *inode, struct file *file)
{
    file->private_data = NULL;
    return 0;
}
#endif

#ifdef FRONTEND
/* Two functions with one text in the driver: the compiler has one of them call the other. */
noinline long nvidia_frontend_compat_ioctl(struct file *file, unsigned command, unsigned long argument)
{
    return do_driver_ioctl(command, argument);
}
#define COMPAT_IOCTL nvidia_frontend_compat_ioctl
#define ANY_IOCTL(file, command, argument) nvidia_frontend_compat_ioctl(file, command, argument)
#else
#define COMPAT_IOCTL nvidia_unlocked_ioctl
#define ANY_IOCTL(file, command, argument) do_driver_ioctl(command, argument)
#endif

noinline long ENTRY(unlocked_ioctl)(struct file *file, unsigned command, unsigned long argument)
{
    return ANY_IOCTL(file, command, argument);
}

noinline int ENTRY(mmap)(struct file *file, struct vm_area_struct *area)
{
    return file->f_inode && area->vm_end > area->vm_start ? 0 : -EINVAL;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = ENTRY(open),
    .release = ENTRY(close),
    .unlocked_ioctl = ENTRY(unlocked_ioctl),
    .compat_ioctl = COMPAT_IOCTL,
    .mmap = ENTRY(mmap),
};

static int __init begin(void)
{
    int result = register_chrdev_region(MKDEV(MAJOR_NUMBER, 0), 256, "nvidia");
    if (result)
        return result;
    cdev_init(&device, &operations);
    result = cdev_add(&device, MKDEV(MAJOR_NUMBER, 0), 256);
    devices = class_create(THIS_MODULE, "nvidia_stub");
    for (int i = 0; i < ARRAY_SIZE(minors); i++)
        device_create(devices, NULL, MKDEV(MAJOR_NUMBER, minors[i]), NULL, minors[i] == 255 ? "nvidiactl" : "nvidia%d",
                      minors[i]);
    return result;
}

static void __exit end(void)
{
    for (int i = 0; i < ARRAY_SIZE(minors); i++)
        device_destroy(devices, MKDEV(MAJOR_NUMBER, minors[i]));
    class_destroy(devices);
    cdev_del(&device);
    unregister_chrdev_region(MKDEV(MAJOR_NUMBER, 0), 256);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
