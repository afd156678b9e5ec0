// network.ConfigController: what the network should be, as LinkSpecs, AddressSpecs, RouteSpecs,
// OperatorSpecs, HostnameSpecs, ResolverSpecs, TimeServerSpecs and the secret WireguardKeys, from
// the kernel's command line, the machine config and what operators were given (network-plan.h).
// networkd makes it so; what cannot be understood goes to machined's log once.
#pragma once

#include "machined/controllers/machine-config.h"
#include "machined/resources/controller.h"

namespace talos::machined {

class NetworkController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  explicit NetworkController(const KernelArguments& arguments,
                             ReadConfig readConfig = storedMachineConfig);

  kj::StringPtr name() const override { return "network.ConfigController"; }
  kj::ArrayPtr<const Input> inputs() const override;
  kj::ArrayPtr<const kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  const KernelArguments& arguments;
  ReadConfig readConfig;
  kj::String reported;  // problems that were logged
};

}  // namespace talos::machined
