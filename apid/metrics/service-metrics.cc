#include "apid/metrics/node-metrics.h"

namespace talos::metrics {
namespace {

constexpr double kMicrosecondsOfSecond = 1e6;
constexpr kj::StringPtr kServiceStates[] = {"initialized"_kj, "preparing"_kj, "waiting"_kj,
                                            "running"_kj,     "stopping"_kj,  "finished"_kj,
                                            "failed"_kj,      "skipped"_kj};

// A number of a group: `value` returns less than 0 if the number is not counted, or unlimited.
struct CgroupRow {
  kj::StringPtr name, help;
  Type type;
  bool microseconds;
  int64_t (*value)(rpc::Cgroup::Reader group);
};
const CgroupRow kCgroupRows[] = {
    {"talos_cgroup_memory_bytes"_kj, "Memory in use"_kj, Type::kGauge, false,
     [](auto group) { return group.getMemory().getCurrent(); }},
    {"talos_cgroup_memory_peak_bytes"_kj, "Most memory that was in use"_kj, Type::kGauge, false,
     [](auto group) { return group.getMemory().getPeak(); }},
    {"talos_cgroup_memory_limit_bytes"_kj, "Limit of memory; none without one"_kj, Type::kGauge,
     false, [](auto group) { return group.getMemory().getMax(); }},
    {"talos_cgroup_swap_bytes"_kj, "Swap in use"_kj, Type::kGauge, false,
     [](auto group) { return group.getMemory().getSwapCurrent(); }},
    {"talos_cgroup_oom_kills_total"_kj, "Processes that were killed for memory"_kj, Type::kCounter,
     false, [](auto group) { return group.getMemory().getOomKills(); }},
    {"talos_cgroup_cpu_seconds_total"_kj, "Seconds of all processors"_kj, Type::kCounter, true,
     [](auto group) { return group.getCpu().getUsageUs(); }},
    {"talos_cgroup_cpu_throttled_seconds_total"_kj, "Seconds in which a limit held it up"_kj,
     Type::kCounter, true, [](auto group) { return group.getCpu().getThrottledUs(); }},
    {"talos_cgroup_pids"_kj, "Processes and threads"_kj, Type::kGauge, false,
     [](auto group) { return group.getPids().getCurrent(); }},
    {"talos_cgroup_pids_limit"_kj, "Limit of processes and threads; none without one"_kj,
     Type::kGauge, false, [](auto group) { return group.getPids().getMax(); }},
    {"talos_cgroup_io_read_bytes_total"_kj, "Bytes that were read from disks"_kj, Type::kCounter,
     false, [](auto group) { return group.getIo().getReadBytes(); }},
    {"talos_cgroup_io_written_bytes_total"_kj, "Bytes that were written to disks"_kj,
     Type::kCounter, false, [](auto group) { return group.getIo().getWrittenBytes(); }},
};

}  // namespace

void writeServices(MetricsText& out, capnp::List<rpc::Service>::Reader services) {
  out.family("talos_service_state", Type::kGauge, "1 for the state of a service");
  for (auto service : services) {
    for (auto i : kj::indices(kServiceStates)) {
      out.add({{"service", service.getId()}, {"state", kServiceStates[i]}},
              static_cast<size_t>(service.getState()) == i);
    }
  }
  out.family("talos_service_healthy", Type::kGauge,
             "1 if a service that has a health check passed its last one");
  for (auto service : services) {
    auto health = service.getHealth();
    if (!service.getChecked() || health.getUnknown()) continue;
    out.add({{"service", service.getId()}}, health.getHealthy());
  }
  out.family("talos_service_starts_total", Type::kCounter,
             "How often a service has come to run since the node was started");
  for (auto service : services) {
    out.add({{"service", service.getId()}}, uint64_t{service.getStarts()});
  }
}

void writeCgroups(MetricsText& out, capnp::List<rpc::Cgroup>::Reader groups, uint64_t leftOut) {
  auto shown = kj::min(groups.size(), kMostCgroups);
  for (auto& row : kCgroupRows) {
    out.family(row.name, row.type, row.help);
    for (size_t i = 0; i < shown; ++i) {
      auto value = row.value(groups[i]);
      kj::StringPtr path = groups[i].getPath();
      if (value < 0 || path.size() == 0) continue;  // the root group stands for the node
      if (row.microseconds) {
        out.add({{"cgroup", path}}, static_cast<double>(value) / kMicrosecondsOfSecond);
      } else {
        out.add({{"cgroup", path}}, static_cast<uint64_t>(value));
      }
    }
  }
  out.family("talos_cgroups_left_out", Type::kGauge, "Control groups that are too many");
  out.add(leftOut + (groups.size() - shown));
}

void writeLogDestinations(MetricsText& out, Resources statuses) {
  auto write = [&](kj::StringPtr name, Type type, kj::StringPtr help, auto value) {
    out.family(name, type, help);
    eachSpec<rpc::LogDestinationStatusSpec>(statuses, [&](auto endpoint, auto status) {
      out.add({{"endpoint", endpoint}}, static_cast<uint64_t>(value(status)));
    });
  };
  write("talos_log_destination_connected", Type::kGauge, "1 if the receiver takes lines",
        [](auto status) { return status.getConnected(); });
  write("talos_log_destination_waiting_bytes", Type::kGauge,
        "Bytes in the buffer that the receiver has not got",
        [](auto status) { return status.getWaitingBytes(); });
  write("talos_log_destination_sent_lines_total", Type::kCounter, "Lines that the receiver has got",
        [](auto status) { return status.getSentLines(); });
  write("talos_log_destination_dropped_lines_total", Type::kCounter,
        "Lines that were lost because the buffer was full",
        [](auto status) { return status.getDroppedLines(); });
  write("talos_log_destination_refused_lines_total", Type::kCounter,
        "Lines that the receiver will never take",
        [](auto status) { return status.getRefusedLines(); });
  write("talos_log_destination_missed_bytes_total", Type::kCounter,
        "Bytes that were overwritten before they reached the buffer",
        [](auto status) { return status.getMissedBytes(); });
}

}  // namespace talos::metrics
