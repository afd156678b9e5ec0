// secrets.RootController: secrets/RootSecrets[os], what trustd signs with and by which rules.
//
// There on machines of type init and controlplane whose config has the key of machine.ca and a
// token; elsewhere not. It changes only when what it is made of has changed: the config, the host
// name, the addresses. After a crash of the brain it is made anew from the recovered store and
// comes out the same.
#pragma once

#include "machined/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class RootController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  explicit RootController(ReadConfig readConfig) : readConfig(kj::mv(readConfig)) {}

  kj::StringPtr name() const override { return "secrets.RootController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
};

// Whether machines are to be signed for here.
bool signsForOthers(const MachineConfigView& config);

}  // namespace talos::machined
