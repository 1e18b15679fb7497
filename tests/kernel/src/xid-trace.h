/* The tracepoint of the driver (nv-tracepoint.h): a PCI device, a code and words. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvidia

#if !defined(XID_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define XID_TRACE_H
#include <linux/tracepoint.h>

TRACE_EVENT(nvidia_dev_xid, TP_PROTO(const struct pci_dev *pdev, uint32_t error_code, const char *msg),
            TP_ARGS(pdev, error_code, msg),
            TP_STRUCT__entry(__string(dev, pci_name(pdev)) __field(u32, error_code) __string(msg, msg)),
            TP_fast_assign(__assign_str(dev, pci_name(pdev)); __entry->error_code = error_code;
                           __assign_str(msg, msg);),
            TP_printk("%s %u %s", __get_str(dev), __entry->error_code, __get_str(msg)));
#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE xid-trace
#include <trace/define_trace.h>
