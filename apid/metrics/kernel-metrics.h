// Metrics of the kernel's own files, under the names that node_exporter gives them. Each function
// takes the text of a file, of this node's machined; lines that are malformed are left out. Pure.
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
// Without those that have no size, images that are full by their nature, and mounts of pods and
// containers. A place counts once, as what is mounted there last.
void writeFilesystems(MetricsText& out, capnp::List<rpc::Mount>::Reader mounts);

// network-metrics.cc
void writeNetworkDevices(MetricsText& out, FileText dev);  // /proc/net/dev
void writeSockets(MetricsText& out, FileText sockstat);    // /proc/net/sockstat
// /proc/net/snmp and /proc/net/netstat, of which the counters that operators look at.
void writeProtocols(MetricsText& out, FileText snmp, FileText netstat);
void writeConnections(MetricsText& out, FileText count, FileText most);  // nf_conntrack

}  // namespace talos::metrics
