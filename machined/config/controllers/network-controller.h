// network.ConfigController: what the network should be, as LinkSpecs, AddressSpecs, RouteSpecs,
// OperatorSpecs, VipSpecs, HostnameSpecs, ResolverSpecs, TimeServerSpecs and the secret
// WireguardKeys, from the kernel's command line, the machine config and what operators were given
// (network-config-plan.h). networkd makes it so; what cannot be understood goes to machined's log
// once.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/resources/controller-outputs.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// The specs of links, their keys, addresses and routes that a config would give now, for networkd
// to look at. The messages hold secrets; they are overwritten at the end.
class NetworkSpecs {
 public:
  NetworkSpecs(const KernelArguments& arguments, const NetworkConfig& config, Store& store);
  NetworkSpecs(NetworkSpecs&&) = default;
  ~NetworkSpecs() noexcept(false);
  size_t size() const;
  void fill(capnp::List<rpc::Resource>::Builder out);
  kj::ArrayPtr<const kj::String> problems() const { return plan.problems; }

 private:
  NetworkPlan plan;
  kj::Vector<kj::Own<OutputSet>> outputs;
};

class NetworkController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  explicit NetworkController(const KernelArguments& arguments, ReadConfig readConfig);

  kj::StringPtr name() const override { return "network.ConfigController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  const KernelArguments& arguments;
  ReadConfig readConfig;
  kj::String reported;  // problems that were logged
};

}  // namespace talos::machined
