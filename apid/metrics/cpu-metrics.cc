#include "apid/metrics/kernel-metrics.h"
#include "common/base/lines.h"
#include "common/text/fields.h"

namespace talos::metrics {
namespace {

// Ticks of /proc/stat in a second: a constant of the kernel's interface.
constexpr double kTicksPerSecond = 100;
constexpr double kMicroseconds = 1e6;
// proc_stat(5); guest time is part of user and nice.
constexpr kj::StringPtr kModes[] = {"user"_kj,   "nice"_kj, "system"_kj,  "idle"_kj,
                                    "iowait"_kj, "irq"_kj,  "softirq"_kj, "steal"_kj};

bool is(FileText text, kj::StringPtr other) {
  return text == other.asArray();
}

bool startsWith(FileText text, kj::StringPtr start) {
  return text.size() >= start.size() && text.slice(0, start.size()) == start.asArray();
}

// Returns the number after the first word of the line that begins with `key`.
kj::Maybe<uint64_t> valueOf(FileText stat, kj::StringPtr key) {
  for (auto line : Lines(stat)) {
    Fields fields(line);
    if (is(fields.next(), key)) return numberIn<uint64_t>(fields.next());
  }
  return nullptr;
}

void writeOne(MetricsText& out, FileText stat, kj::StringPtr key, kj::StringPtr name, Type type,
              kj::StringPtr help) {
  KJ_IF_MAYBE (value, valueOf(stat, key)) {
    out.family(name, type, help);
    out.add(*value);
  }
}

// Returns "total=123" of the line `some` or `full`, as seconds.
kj::Maybe<double> stalled(FileText text, kj::StringPtr kind) {
  constexpr kj::StringPtr kTotalKey = "total="_kj;
  for (auto line : Lines(text)) {
    Fields fields(line);
    if (!is(fields.next(), kind)) continue;
    for (auto field = fields.next(); field.size() > 0; field = fields.next()) {
      if (!startsWith(field, kTotalKey)) continue;
      auto digits = field.slice(kTotalKey.size(), field.size());
      return static_cast<double>(numberIn<uint64_t>(digits)) / kMicroseconds;
    }
  }
  return nullptr;
}

void writeStalled(MetricsText& out, FileText text, kj::StringPtr kind, kj::StringPtr name,
                  kj::StringPtr help) {
  KJ_IF_MAYBE (seconds, stalled(text, kind)) {
    out.family(name, Type::kCounter, help);
    out.add(*seconds);
  }
}

}  // namespace

void writeStat(MetricsText& out, FileText stat) {
  out.family("node_cpu_seconds_total", Type::kCounter,
             "Seconds that each processor spent in each mode");
  constexpr kj::StringPtr kCpu = "cpu"_kj;
  for (auto line : Lines(stat)) {
    Fields fields(line);
    auto name = fields.next();
    if (!startsWith(name, kCpu) || name.size() == kCpu.size()) continue;
    auto cpu = kj::heapString(name.slice(kCpu.size(), name.size()));
    for (auto mode : kModes) {
      auto field = fields.next();
      if (field.size() == 0) break;
      out.add({{"cpu", cpu}, {"mode", mode}},
              static_cast<double>(numberIn<uint64_t>(field)) / kTicksPerSecond);
    }
  }
  writeOne(out, stat, "intr", "node_intr_total", Type::kCounter, "Interrupts");
  writeOne(out, stat, "ctxt", "node_context_switches_total", Type::kCounter, "Context switches");
  writeOne(out, stat, "processes", "node_forks_total", Type::kCounter,
           "Processes and threads that were made");
  writeOne(out, stat, "btime", "node_boot_time_seconds", Type::kGauge,
           "When the kernel was started, in seconds since 1970");
  writeOne(out, stat, "procs_running", "node_procs_running", Type::kGauge,
           "Threads that run or could run");
  writeOne(out, stat, "procs_blocked", "node_procs_blocked", Type::kGauge,
           "Threads that wait for a disk");
}

void writeLoad(MetricsText& out, FileText loadavg) {
  Fields fields(loadavg);
  auto write = [&](kj::StringPtr name, kj::StringPtr help) {
    auto field = fields.next();
    if (field.size() == 0) return;
    out.family(name, Type::kGauge, help);
    out.add(numberIn<double>(field));
  };
  write("node_load1", "Load average of 1 minute");
  write("node_load5", "Load average of 5 minutes");
  write("node_load15", "Load average of 15 minutes");
}

void writePressure(MetricsText& out, FileText cpu, FileText memory, FileText io) {
  writeStalled(out, cpu, "some", "node_pressure_cpu_waiting_seconds_total",
               "Seconds in which a task waited for a processor");
  writeStalled(out, memory, "some", "node_pressure_memory_waiting_seconds_total",
               "Seconds in which a task waited for memory");
  writeStalled(out, memory, "full", "node_pressure_memory_stalled_seconds_total",
               "Seconds in which every task waited for memory");
  writeStalled(out, io, "some", "node_pressure_io_waiting_seconds_total",
               "Seconds in which a task waited for a disk");
  writeStalled(out, io, "full", "node_pressure_io_stalled_seconds_total",
               "Seconds in which every task waited for a disk");
}

}  // namespace talos::metrics
