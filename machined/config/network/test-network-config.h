// For tests: the key `machine` of a config, unchecked.
#pragma once

#include "common/config/config.h"

namespace talos::machined {

class MachineText {
 public:
  // `network`: the entries of machine.network, in YAML's flow style: "interfaces: [{interface:
  // eth0}]".
  explicit MachineText(kj::StringPtr network, kj::StringPtr time = "")
      : config(config::parse(
            kj::str("machine: {network: {", network, "}, time: {", time, "}}\n").asArray())) {}
  explicit MachineText(config::MachineConfig&& config) : config(kj::mv(config)) {}

  config::Machine::Reader get() const { return config.get().getMachine(); }

 private:
  config::MachineConfig config;
};

}  // namespace talos::machined
