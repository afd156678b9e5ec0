// secrets.RootController: secrets/RootSecrets.
//
//   - os: the key and rules with which trustd signs, if the config has the key of machine.ca and a
//     token
//   - k8s: the inputs of the certificates and files of the Kubernetes control plane, if the config
//     has the key of cluster.ca
//
// They exist only on machines of type init and controlplane. Each changes only when its inputs
// change: the config, and for os the host name, the addresses and the other control-plane nodes
// (control-plane-nodes.h). While these are not known, os says so, and trustd signs no names. After
// a crash of the brain they are made again from the recovered store, with the same content.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/trust/control-plane-nodes.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class RootController final : public Controller {
 public:
  RootController(ReadConfig readConfig, ControlPlaneNodes::Dependencies nodes)
      : readConfig(kj::mv(readConfig)), nodes(kj::mv(nodes)) {}

  kj::StringPtr name() const override { return "secrets.RootController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  ControlPlaneNodes nodes;
};

// Returns true if this machine's trustd signs certificates of other machines.
bool signsForOthers(config::Config::Reader config);

}  // namespace talos::machined
