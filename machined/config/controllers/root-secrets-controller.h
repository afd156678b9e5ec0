// secrets.RootController: secrets/RootSecrets.
//
//   os   what trustd signs with and by which rules; where the config has the key of machine.ca and
//        a token
//   k8s  what the certificates and files of the Kubernetes control plane are made of; where it has
//        the key of cluster.ca
//
// On machines of type init and controlplane; elsewhere none. Each changes only when what it is made
// of has changed: the config, and for os the host name and the addresses. After a crash of the
// brain it is made anew from the recovered store and comes out the same.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class RootController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  using ReadDocument = kj::Function<kj::Maybe<config::Config::Reader>(Store&)>;

  RootController(ReadConfig readConfig, ReadDocument readDocument)
      : readConfig(kj::mv(readConfig)), readDocument(kj::mv(readDocument)) {}

  kj::StringPtr name() const override { return "secrets.RootController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  ReadDocument readDocument;
};

// Whether machines are to be signed for here.
bool signsForOthers(const MachineConfigView& config);

}  // namespace talos::machined
