// The end of a program window in a machine (common/base/program-window.h, where the argument is why
// no other machine can have one).
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos::machined {

class HostWindow {
 public:
  // None on a machine without the device. `devices`: the folder of sysfs.
  static kj::Maybe<HostWindow> find(kj::StringPtr devices = "/sys/bus/pci/devices"_kj);
  explicit HostWindow(kj::AutoCloseFd memory) : memory(kj::mv(memory)) {}

  // Carries an order for this service out: its program is put into the folder of replaced ones
  // (replaced-program.h), where the start finds it, or taken away. Other orders are left alone; one
  // that cannot be carried out is logged, and the start goes on as without it. Takes a few tens of
  // milliseconds, and only when there is an order.
  void follow(kj::StringPtr id, kj::StringPtr folder = kReplacedFolder) const;

 private:
  kj::AutoCloseFd memory;
};

}  // namespace talos::machined
