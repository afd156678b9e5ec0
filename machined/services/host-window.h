// A machine's end of a program window (common/base/program-window.h, which explains why no other
// machine can have one).
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos::machined {

class HostWindow {
 public:
  // Returns nullptr on a machine without the device. `devices` is the folder of sysfs.
  static kj::Maybe<HostWindow> find(kj::StringPtr devices = "/sys/bus/pci/devices"_kj);
  explicit HostWindow(kj::AutoCloseFd memory) : memory(kj::mv(memory)) {}

  // Carries out an order for this service: writes its program to the folder of replaced programs
  // (replaced-program.h), where the start finds it, or removes it. Ignores other orders; logs an
  // order that cannot be carried out, and the start continues without it. Takes a few tens of
  // milliseconds, and only if there is an order.
  void follow(kj::StringPtr id, kj::StringPtr folder = kReplacedFolder) const;

 private:
  kj::AutoCloseFd memory;
};

}  // namespace talos::machined
