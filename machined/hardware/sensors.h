// Temperatures and fans, as drivers of the kernel show them in sysfs
// (Documentation/hwmon/sysfs-interface.rst).
//
// Blocking: a read may query the chip, over a slow bus. A sensor that cannot be read, because it is
// off or its device disappeared, is left out. The root of sysfs is a parameter.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct Sensor {
  enum class Kind { kTemperature, kFan };
  kj::String id;            // hwmon0-temp1
  kj::String chip, device;  // coretemp; nvme0
  kj::String label;         // empty if the driver has no label
  Kind kind = Kind::kTemperature;
  int32_t value = 0;  // degrees Celsius, or revolutions per minute
  // In the same unit; 0: the driver reports no limit. A fan has only `low`, a temperature the
  // others.
  int32_t low = 0, high = 0, critical = 0;
  kj::StringPtr state;  // ok, low, high, critical, alarm or fault
};

// Returns the sensors in the order of the chips, then of their sensors.
kj::Vector<Sensor> readSensors(kj::StringPtr sys);

}  // namespace talos::machined
