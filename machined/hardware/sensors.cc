#include "machined/hardware/sensors.h"

#include <algorithm>

#include "common/base/folder.h"
#include "machined/hardware/attributes.h"

namespace talos::machined {
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

}  // namespace talos::machined
