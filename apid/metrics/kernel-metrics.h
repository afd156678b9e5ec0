// Metrics from the kernel's files, under the names that node_exporter gives them. Each function
// takes the text of a file from this node's machined and skips malformed lines. Pure.
#pragma once

#include "apid/metrics/metrics-text.h"
#include "rpc/machine.capnp.h"

namespace talos::metrics {

using FileText = kj::ArrayPtr<const char>;

// cpu-metrics.cc
void writeStat(MetricsText& out, FileText stat);     // /proc/stat
void writeLoad(MetricsText& out, FileText loadavg);  // /proc/loadavg
// /proc/pressure/cpu, memory and io
void writePressure(MetricsText& out, FileText cpu, FileText memory, FileText io);

// memory-metrics.cc
void writeMemory(MetricsText& out, capnp::List<rpc::MemoryField>::Reader fields);
void writeVmstat(MetricsText& out, FileText vmstat);       // /proc/vmstat
void writeFileHandles(MetricsText& out, FileText fileNr);  // /proc/sys/fs/file-nr

// disk-metrics.cc
void writeDisks(MetricsText& out, FileText diskstats);  // /proc/diskstats
// Leaves out file systems without a size, images that are always full, and mounts of pods and
// containers. A mount point counts once, as its last mount.
void writeFilesystems(MetricsText& out, capnp::List<rpc::Mount>::Reader mounts);

// network-metrics.cc
void writeNetworkDevices(MetricsText& out, FileText dev);  // /proc/net/dev
void writeSockets(MetricsText& out, FileText sockstat);    // /proc/net/sockstat
// Writes the counters of /proc/net/snmp and /proc/net/netstat that operators use.
void writeProtocols(MetricsText& out, FileText snmp, FileText netstat);
void writeConnections(MetricsText& out, FileText count, FileText most);  // nf_conntrack

}  // namespace talos::metrics
