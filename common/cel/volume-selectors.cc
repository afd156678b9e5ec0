#include "common/cel/volume-selectors.h"

namespace talos::cel {
namespace {

Values valuesOf(const DiskProperties& disk) {
  return {{"disk.size", Value::of(disk.size)},
          {"disk.io_size", Value::of(disk.ioSize)},
          {"disk.sector_size", Value::of(disk.sectorSize)},
          {"disk.readonly", Value::of(disk.readOnly)},
          {"disk.rotational", Value::of(disk.rotational)},
          {"disk.cdrom", Value::of(disk.cdrom)},
          {"disk.model", Value::of(disk.model)},
          {"disk.serial", Value::of(disk.serial)},
          {"disk.modalias", Value::of(disk.modalias)},
          {"disk.wwid", Value::of(disk.wwid)},
          {"disk.uuid", Value::of(disk.uuid)},
          {"disk.bus_path", Value::of(disk.busPath)},
          {"disk.sub_system", Value::of(disk.subSystem)},
          {"disk.transport", Value::of(disk.transport)},
          {"disk.dev_path", Value::of(disk.devPath)},
          {"system_disk", Value::of(disk.systemDisk)}};
}

Values valuesOf(const VolumeProperties& volume, const DiskProperties& disk) {
  auto values = valuesOf(disk);
  values.emplace("volume.name", Value::of(volume.name));
  values.emplace("volume.label", Value::of(volume.label));
  values.emplace("volume.partition_label", Value::of(volume.partitionLabel));
  values.emplace("volume.type", Value::of(volume.type));
  values.emplace("volume.dev_path", Value::of(volume.devPath));
  values.emplace("volume.parent_dev_path", Value::of(volume.parentDevPath));
  values.emplace("volume.size", Value::of(volume.size));
  values.emplace("volume.offset", Value::of(volume.offset));
  values.emplace("volume.partition_index", Value::of(volume.partitionIndex));
  return values;
}

Compiled compileWith(kj::StringPtr text, const Values& variables) {
  Environment environment;
  environment.constants = unitConstants();
  for (auto& [name, value] : variables) environment.variables.emplace(name, value.type);
  return compile(text, environment, Type::kBool);
}

bool holds(const Program& selector, const Values& values) {
  auto result = selector.run(values);
  return result.mistake == nullptr && result.value.flag;
}

}  // namespace

std::map<std::string, Value> unitConstants() {
  std::map<std::string, Value> result;
  uint64_t binary = 1, decimal = 1;
  for (char prefix : {'k', 'M', 'G', 'T', 'P', 'E'}) {
    binary *= 1024, decimal *= 1000;
    std::string letter(1, prefix);
    result.emplace((prefix == 'k' ? "K" : letter) + "iB", Value::of(binary));
    result.emplace(letter + "B", Value::of(decimal));
  }
  return result;
}

Compiled compileDiskSelector(kj::StringPtr text) {
  return compileWith(text, valuesOf(DiskProperties()));
}
Compiled compileVolumeSelector(kj::StringPtr text) {
  return compileWith(text, valuesOf(VolumeProperties(), DiskProperties()));
}

bool selects(const Program& selector, const DiskProperties& disk) {
  return holds(selector, valuesOf(disk));
}
bool selects(const Program& selector, const VolumeProperties& volume, const DiskProperties& disk) {
  return holds(selector, valuesOf(volume, disk));
}

}  // namespace talos::cel
