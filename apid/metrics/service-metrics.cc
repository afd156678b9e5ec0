#include <map>
#include <set>
#include <string>

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

constexpr kj::StringPtr kCgroupPrefix = "talos_cgroup_"_kj, kPodGroups = "kubepods/"_kj;

// The pod and the container of a control group, as far as they are known.
struct Owner {
  std::string space, pod, container;
};
using Groups = kj::Vector<rpc::Cgroup::Reader>;

std::string parentOf(const std::string& path) {
  return path.substr(0, path.find_last_of('/'));
}

std::set<std::string> parentsOf(const Groups& groups) {
  std::set<std::string> parents;
  for (auto& group : groups) {
    std::string path = group.getPath().cStr();
    for (size_t at = 0; (at = path.find('/', at)) != std::string::npos; ++at) {
      parents.insert(path.substr(0, at));
    }
  }
  return parents;
}

// The name of a container's group is containerd's id; its parent is the group of the pod.
std::map<std::string, Owner> ownersOf(const Groups& groups,
                                      capnp::List<rpc::Container>::Reader containers) {
  std::map<std::string, Owner> byId, owners;
  for (auto container : containers) {
    std::string pod = container.getPodId().cStr(), id = container.getId().cStr();
    auto slash = pod.find('/');
    if (slash == std::string::npos || container.getRuntimeId().size() == 0) continue;
    Owner owner{pod.substr(0, slash), pod.substr(slash + 1), ""};
    if (id.size() > pod.size() + 1) owner.container = id.substr(pod.size() + 1);
    byId[container.getRuntimeId().cStr()] = owner;
  }
  for (auto& group : groups) {
    std::string path = group.getPath().cStr();
    auto found = byId.find(path.substr(path.find_last_of('/') + 1));
    if (found == byId.end()) continue;
    owners[path] = found->second;
    owners[parentOf(path)] = {found->second.space, found->second.pod, ""};
  }
  return owners;
}

void writeCgroup(MetricsText& out, const CgroupRow& row, rpc::Cgroup::Reader group,
                 const Owner& owner) {
  auto value = row.value(group);
  if (value < 0) return;
  kj::Vector<Label> labels(4);
  labels.add(Label{"cgroup", group.getPath()});
  auto add = [&](kj::StringPtr name, const std::string& text) {
    if (!text.empty()) labels.add(Label{name, text.c_str()});
  };
  add("namespace", owner.space);
  add("pod", owner.pod);
  add("container", owner.container);
  if (row.microseconds) {
    out.add(labels.asPtr(), static_cast<double>(value) / kMicrosecondsOfSecond);
  } else {
    out.add(labels.asPtr(), static_cast<uint64_t>(value));
  }
}

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

void writeCgroups(MetricsText& out, capnp::List<rpc::Cgroup>::Reader groups, uint64_t leftOut,
                  capnp::List<rpc::Container>::Reader containers, bool pods) {
  kj::Vector<rpc::Cgroup::Reader> shown;
  for (auto group : groups) {
    if (group.getPath().size() == 0) continue;  // the root group stands for the node
    if (!pods && group.getPath().startsWith(kPodGroups)) continue;
    if (shown.size() < kMostCgroups) {
      shown.add(group);
    } else {
      ++leftOut;
    }
  }
  auto parents = parentsOf(shown);
  auto owners = ownersOf(shown, containers);
  for (auto& row : kCgroupRows) {
    auto parentName = kj::str("talos_cgroup_parent_", row.name.slice(kCgroupPrefix.size()));
    for (bool parent : {false, true}) {
      out.family(parent ? parentName.asPtr() : row.name, row.type, row.help);
      for (auto& group : shown) {
        std::string path = group.getPath().cStr();
        if ((parents.count(path) > 0) == parent) writeCgroup(out, row, group, owners[path]);
      }
    }
  }
  out.family("talos_cgroups_left_out", Type::kGauge, "Control groups that are too many");
  out.add(leftOut);
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
  write("talos_log_destination_repeated_lines_total", Type::kCounter,
        "Lines that were sent again because the receiver has not acknowledged them",
        [](auto status) { return status.getRepeatedLines(); });
  write("talos_log_destination_dropped_lines_total", Type::kCounter,
        "Lines that were lost because the buffer was full",
        [](auto status) { return status.getDroppedLines(); });
  write("talos_log_destination_refused_lines_total", Type::kCounter,
        "Lines that the receiver will never take",
        [](auto status) { return status.getRefusedLines(); });
  write("talos_log_destination_missed_bytes_total", Type::kCounter,
        "Bytes that were overwritten before they reached the buffer",
        [](auto status) { return status.getMissedBytes(); });
  write("talos_log_destination_missed_records_total", Type::kCounter,
        "Records of the kernel log that were overwritten before they reached the buffer",
        [](auto status) { return status.getMissedRecords(); });
  write("talos_log_destination_damaged_bytes_total", Type::kCounter,
        "Bytes of the buffer that the disk has damaged",
        [](auto status) { return status.getDamagedBytes(); });
}

}  // namespace talos::metrics
