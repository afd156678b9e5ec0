// config.MachineTypeController: config/MachineTypes[machine-type], `unknown` before there is a
// config.
#pragma once

#include "machined/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class MachineTypeController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  explicit MachineTypeController(ReadConfig readConfig = storedMachineConfig)
      : readConfig(kj::mv(readConfig)) {}

  kj::StringPtr name() const override { return "config.MachineTypeController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
};

}  // namespace talos::machined
