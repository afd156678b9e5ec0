// k8s.KubeletController: Nodenames[nodename], KubeletSpecs[kubelet] and
// secrets/KubeletSecrets[kubelet], computed from the machine config, the host name and the
// addresses of the node (kubelet-plan.h).
//
// They exist as soon as all inputs are known; until then the log says which input is missing. They
// stay while a link or a name is away for a moment. After a crash of the brain they are computed
// again from the recovered store, with the same content.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/kubelet/kubelet-plan.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class KubeletController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<config::Config::Reader>(Store&)>;

  // The other arguments are as in KubeletNodeContext.
  explicit KubeletController(ReadConfig readConfig, bool sharesDisk = false,
                             kj::StringPtr memoryFile = "")
      : readConfig(kj::mv(readConfig)), sharesDisk(sharesDisk), memoryFile(memoryFile) {}

  kj::StringPtr name() const override { return "k8s.KubeletController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  bool sharesDisk;
  kj::StringPtr memoryFile;
  kj::String lastLogged, refused, assumed;

  void warnOfLabels(config::Machine::Reader machine);
  void warnOfRelease(config::Config::Reader config);
};

// Returns what the kubelet of this config waits for; nullptr if nothing is missing. Meanwhile one
// that runs keeps the settings of the config before.
kj::Maybe<kj::String> missingForKubelet(Store& store, config::Config::Reader config);

// Not in the table of machined/config/controllers, which is a lower layer.
kj::Own<Controller> kubeletController(ControllerDependencies& deps);

}  // namespace talos::machined
