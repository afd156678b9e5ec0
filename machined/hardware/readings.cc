#include "machined/hardware/readings.h"

#include <algorithm>
#include <utility>

#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"
#include "common/text/foreign-text.h"

namespace talos::machined {

kj::Maybe<int64_t> attributeNumber(kj::StringPtr device, kj::StringPtr name) {
  auto line = KJ_UNWRAP_OR_RETURN(readAttributeLine(device, name), nullptr);
  return line.tryParseAs<int64_t>();
}

kj::String attributeText(kj::StringPtr device, kj::StringPtr name) {
  return fieldText(readAttributeLine(device, name).orDefault(kj::String()));
}

kj::String linkName(kj::StringPtr link) {
  return fieldText(nameOfTarget(link));
}

kj::Vector<kj::String> numberedNames(kj::StringPtr folder, kj::StringPtr prefix, size_t most) {
  kj::Vector<std::pair<uint32_t, kj::String>> found;
  for (auto& name : namesIn(folder, most)) {
    if (!name.startsWith(prefix)) continue;
    KJ_IF_MAYBE (number, name.slice(prefix.size()).tryParseAs<uint32_t>()) {
      found.add(std::pair(*number, kj::mv(name)));
    }
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
  kj::Vector<kj::String> names(found.size());
  for (auto& each : found) names.add(kj::mv(each.second));
  return names;
}

namespace {

constexpr size_t kMostChips = 256, kMostFilesOfAChip = 4096, kMostSensors = 1024;
// Beyond these limits the chip is not connected, or the driver is wrong.
constexpr int64_t kMostDegrees = 1000, kMostRevolutions = 1'000'000;
constexpr int64_t kMilli = 1000;

// The files of one sensor: temp1_input, temp1_max …
class SensorFiles {
 public:
  SensorFiles(kj::StringPtr chip, kj::StringPtr name, Sensor::Kind kind)
      : chip(chip), name(name), kind(kind) {}

  kj::Maybe<int32_t> value(kj::StringPtr suffix) const {
    auto raw = KJ_UNWRAP_OR_RETURN(attributeNumber(chip, kj::str(name, "_", suffix)), nullptr);
    bool fan = kind == Sensor::Kind::kFan;
    int64_t most = fan ? kMostRevolutions : kMostDegrees * kMilli;
    if (raw < (fan ? 0 : -most) || raw > most) return nullptr;
    if (fan) return static_cast<int32_t>(raw);
    return static_cast<int32_t>((raw + (raw < 0 ? -kMilli : kMilli) / 2) / kMilli);
  }
  bool flag(kj::StringPtr suffix) const {
    return attributeNumber(chip, kj::str(name, "_", suffix)).orDefault(0) != 0;
  }
  kj::String label() const { return attributeText(chip, kj::str(name, "_label")); }

 private:
  kj::StringPtr chip, name;
  Sensor::Kind kind;
};

kj::StringPtr stateOf(const SensorFiles& files, const Sensor& sensor) {
  auto above = [&](int32_t limit) { return limit > 0 && sensor.value >= limit; };
  if (files.flag("fault")) return "fault"_kj;
  if (sensor.kind == Sensor::Kind::kFan) {
    if (sensor.low > 0 && sensor.value < sensor.low) return "low"_kj;
  } else {
    if (files.flag("crit_alarm") || above(sensor.critical)) return "critical"_kj;
    if (files.flag("max_alarm") || above(sensor.high)) return "high"_kj;
  }
  return files.flag("alarm") ? "alarm"_kj : "ok"_kj;
}

struct SensorName {
  Sensor::Kind kind;
  unsigned number;
  kj::String name;  // temp1
};

// "temp1_input" or "fan2_input".
kj::Maybe<SensorName> sensorOf(kj::StringPtr file) {
  constexpr auto kInput = "_input"_kj;
  if (!file.endsWith(kInput)) return nullptr;
  auto name = kj::heapString(file.slice(0, file.size() - kInput.size()));
  auto numbered = [&](kj::StringPtr prefix) -> kj::Maybe<unsigned> {
    if (!name.startsWith(prefix)) return nullptr;
    return name.slice(prefix.size()).tryParseAs<unsigned>();
  };
  KJ_IF_MAYBE (number, numbered("temp"_kj)) {
    return SensorName{Sensor::Kind::kTemperature, *number, kj::mv(name)};
  }
  KJ_IF_MAYBE (number, numbered("fan"_kj)) {
    return SensorName{Sensor::Kind::kFan, *number, kj::mv(name)};
  }
  return nullptr;
}

void addSensorsOf(kj::StringPtr folder, kj::StringPtr hwmon, kj::Vector<Sensor>& all) {
  kj::Vector<SensorName> names;
  for (auto& file : namesIn(folder, kMostFilesOfAChip)) {
    KJ_IF_MAYBE (name, sensorOf(file)) names.add(kj::mv(*name));
  }
  std::sort(names.begin(), names.end(), [](auto& a, auto& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.number < b.number;
  });
  auto chip = attributeText(folder, "name");
  auto device = linkName(kj::str(folder, "/device"));
  for (auto& each : names) {
    if (all.size() >= kMostSensors) return;
    SensorFiles files(folder, each.name, each.kind);
    KJ_IF_MAYBE (value, files.value("input")) {
      bool fan = each.kind == Sensor::Kind::kFan;
      Sensor sensor{.id = kj::str(hwmon, "-", each.name),
                    .chip = kj::str(chip),
                    .device = kj::str(device),
                    .label = files.label(),
                    .kind = each.kind,
                    .value = *value,
                    .low = fan ? files.value("min").orDefault(0) : 0,
                    .high = fan ? 0 : files.value("max").orDefault(0),
                    .critical = fan ? 0 : files.value("crit").orDefault(0),
                    .state = {}};
      sensor.state = stateOf(files, sensor);
      all.add(kj::mv(sensor));
    }
  }
}

}  // namespace

kj::Vector<Sensor> readSensors(kj::StringPtr sys) {
  kj::Vector<Sensor> all;
  for (auto& chip : numberedNames(kj::str(sys, "/class/hwmon"), "hwmon", kMostChips)) {
    kj::runCatchingExceptions(
        [&] { addSensorsOf(kj::str(sys, "/class/hwmon/", chip), chip, all); });
  }
  return all;
}

namespace {

constexpr size_t kMostControllers = 256, kMostModules = 1024;

kj::Maybe<uint64_t> counter(kj::StringPtr folder, kj::StringPtr name) {
  auto value = KJ_UNWRAP_OR_RETURN(attributeNumber(folder, name), nullptr);
  if (value < 0) return nullptr;
  return static_cast<uint64_t>(value);
}

void addModulesOf(kj::StringPtr folder, kj::StringPtr id, kj::StringPtr controller,
                  kj::Vector<MemoryErrors>& all) {
  for (auto kind : {"dimm"_kj, "rank"_kj}) {
    for (auto& name : numberedNames(folder, kind, kMostModules)) {
      auto module = kj::str(folder, "/", name);
      KJ_IF_MAYBE (corrected, counter(module, "dimm_ce_count")) {
        auto label = attributeText(module, "dimm_label");
        all.add(MemoryErrors{.id = kj::str(id, "-", name),
                             .controller = kj::str(controller),
                             .module = label.size() > 0 ? kj::mv(label) : kj::str(name),
                             .mebibytes = counter(module, "size").orDefault(0),
                             .corrected = *corrected,
                             .uncorrected = counter(module, "dimm_ue_count").orDefault(0)});
      }
    }
  }
}

}  // namespace

kj::Vector<MemoryErrors> readMemoryErrors(kj::StringPtr sys) {
  kj::Vector<MemoryErrors> all;
  auto controllers = kj::str(sys, "/devices/system/edac/mc");
  for (auto& id : numberedNames(controllers, "mc", kMostControllers)) {
    auto folder = kj::str(controllers, "/", id);
    KJ_IF_MAYBE (corrected, counter(folder, "ce_count")) {
      auto name = attributeText(folder, "mc_name");
      all.add(MemoryErrors{.id = kj::str(id),
                           .controller = kj::str(name),
                           .module = kj::String(),
                           .mebibytes = counter(folder, "size_mb").orDefault(0),
                           .corrected = *corrected,
                           .uncorrected = counter(folder, "ue_count").orDefault(0)});
      addModulesOf(folder, id, name, all);
    }
  }
  return all;
}

namespace {

constexpr size_t kMostNodes = 1024, kMostGroups = 16384, kMostOfAGroup = 4096;
constexpr uint64_t kKibibytesInMebibyte = 1024;

kj::Vector<kj::String> fieldsOf(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> fields;
  for (size_t i = 0; i < line.size();) {
    size_t end = std::find(line.begin() + i, line.end(), ' ') - line.begin();
    if (end > i) fields.add(kj::heapString(line.slice(i, end)));
    i = end + 1;
  }
  return fields;
}

// "Node 0 MemTotal:       65842156 kB"
uint64_t mebibytesOf(kj::StringPtr meminfo) {
  for (auto line : Lines(meminfo)) {
    auto fields = fieldsOf(line);
    if (fields.size() < 4 || fields[2] != "MemTotal:") continue;
    return fields[3].tryParseAs<uint64_t>().orDefault(0) / kKibibytesInMebibyte;
  }
  return 0;
}

}  // namespace

kj::Vector<NumaNode> readNumaNodes(kj::StringPtr sys) {
  kj::Vector<NumaNode> nodes;
  auto folder = kj::str(sys, "/devices/system/node");
  for (auto& id : numberedNames(folder, "node", kMostNodes)) {
    auto path = kj::str(folder, "/", id);
    NumaNode node{.id = kj::mv(id), .cpus = attributeText(path, "cpulist"), .distances = {}};
    node.mebibytes = mebibytesOf(readAttribute(path, "meminfo").orDefault(kj::String()));
    for (auto& field : fieldsOf(attributeText(path, "distance"))) {
      KJ_IF_MAYBE (distance, field.tryParseAs<uint32_t>()) node.distances.add(*distance);
    }
    nodes.add(kj::mv(node));
  }
  return nodes;
}

kj::Vector<IommuGroup> readIommuGroups(kj::StringPtr sys) {
  kj::Vector<IommuGroup> groups;
  auto folder = kj::str(sys, "/kernel/iommu_groups");
  for (auto& id : numberedNames(folder, "", kMostGroups)) {
    auto path = kj::str(folder, "/", id);
    groups.add(IommuGroup{.id = kj::mv(id),
                          .type = attributeText(path, "type"),
                          .devices = namesIn(kj::str(path, "/devices"), kMostOfAGroup)});
  }
  return groups;
}

}  // namespace talos::machined
