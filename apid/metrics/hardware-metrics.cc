#include "apid/metrics/node-metrics.h"

namespace talos::metrics {
namespace {

constexpr kj::StringPtr kSensorStates[] = {"ok"_kj,       "low"_kj,   "high"_kj,
                                           "critical"_kj, "alarm"_kj, "fault"_kj};

void writeReadings(MetricsText& out, Resources readings, kj::StringPtr kind) {
  eachSpec<rpc::SensorReadingSpec>(readings, [&](auto id, auto reading) {
    if (reading.getKind() != kind) return;
    out.add({{"chip", reading.getChip()},
             {"device", reading.getDevice()},
             {"sensor", id},
             {"label", reading.getLabel()}},
            static_cast<double>(reading.getValue()));
  });
}

}  // namespace

void writeLinks(MetricsText& out, Resources linkStatuses) {
  out.family("node_network_up", Type::kGauge, "1 if the link is up");
  eachSpec<rpc::LinkStatusSpec>(linkStatuses, [&](auto name, auto link) {
    out.add({{"device", name}}, link.getOperationalState() == "up");
  });
  out.family("node_network_carrier", Type::kGauge, "1 if the link has a carrier");
  eachSpec<rpc::LinkStatusSpec>(linkStatuses, [&](auto name, auto link) {
    out.add({{"device", name}}, link.getLinkState());
  });
  out.family("node_network_mtu_bytes", Type::kGauge, "MTU of the link");
  eachSpec<rpc::LinkStatusSpec>(linkStatuses, [&](auto name, auto link) {
    out.add({{"device", name}}, uint64_t{link.getMtu()});
  });
}

void writeSensors(MetricsText& out, Resources readings) {
  out.family("talos_sensor_temperature_celsius", Type::kGauge, "A temperature of the hardware");
  writeReadings(out, readings, "temperature");
  out.family("talos_sensor_fan_rpm", Type::kGauge, "Revolutions of a fan in a minute");
  writeReadings(out, readings, "fan");
  out.family("talos_sensor_state", Type::kGauge, "1 for the state of a sensor");
  eachSpec<rpc::SensorReadingSpec>(readings, [&](auto id, auto reading) {
    for (auto state : kSensorStates) {
      out.add({{"sensor", id}, {"state", state}}, state == reading.getState());
    }
  });
}

void writeDiskHealth(MetricsText& out, Resources diskHealths) {
  out.family("talos_disk_healthy", Type::kGauge,
             "1 if a disk that judges itself (SMART) passes, 0 if it is failing");
  eachSpec<rpc::DiskHealthSpec>(diskHealths, [&](auto disk, auto health) {
    bool passed = health.getHealth() == "passed";
    if (passed || health.getHealth() == "failing") out.add({{"device", disk}}, passed);
  });
  out.family("talos_disk_warnings", Type::kGauge, "Warnings of a disk about itself");
  eachSpec<rpc::DiskHealthSpec>(diskHealths, [&](auto disk, auto health) {
    out.add({{"device", disk}}, uint64_t{health.getWarnings().size()});
  });
  constexpr double kWhole = 100;  // percent
  out.family("talos_disk_wear_ratio", Type::kGauge,
             "Part that is used of the life that the vendor expects; may be above 1");
  eachSpec<rpc::DiskHealthSpec>(diskHealths, [&](auto disk, auto health) {
    if (!health.hasNvme()) return;
    out.add({{"device", disk}}, health.getNvme().getPercentageUsed() / kWhole);
  });
}

void writeMemoryErrors(MetricsText& out, Resources counts) {
  auto write = [&](kj::StringPtr name, kj::StringPtr help, auto value) {
    out.family(name, Type::kCounter, help);
    eachSpec<rpc::MemoryErrorCountSpec>(counts, [&](auto id, auto count) {
      out.add({{"controller", count.getController()}, {"module", count.getModule()}, {"id", id}},
              static_cast<uint64_t>(value(count)));
    });
  };
  write("talos_memory_errors_corrected_total", "Errors of memory that ECC has corrected",
        [](auto count) { return count.getCorrected(); });
  write("talos_memory_errors_uncorrected_total", "Errors of memory that ECC could not correct",
        [](auto count) { return count.getUncorrected(); });
}

void writeOomActions(MetricsText& out, Resources oomActions) {
  // The kills are numbered since the node has started, and only the newest ones are kept.
  uint64_t kills = 0;
  for (auto action : oomActions) {
    kj::StringPtr id = action.getMetadata().getId();
    kills = kj::max(kills, id.tryParseAs<uint64_t>().orDefault(0));
  }
  out.family("talos_oom_kills_total", Type::kCounter,
             "Cgroups that the node has killed because its memory was short");
  out.add({}, kills);
}

}  // namespace talos::metrics
