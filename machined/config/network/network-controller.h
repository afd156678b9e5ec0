// network.ConfigController: publishes the wanted network as LinkSpecs, AddressSpecs, RouteSpecs,
// RoutingRuleSpecs, OperatorSpecs, VipSpecs, HostnameSpecs, ResolverSpecs, TimeServerSpecs and the
// secret WireguardKeys and VipCredentials, from the kernel's command line, the machine config and
// the leases of operators (network-config-plan.h). With machine.features.stableHostname a node
// without a host name is named after its identity (node-identity-name.h) as soon as that is known;
// until then, and while it cannot be read, after an address. networkd applies the specs. The
// controller logs each problem once.
#pragma once

#include <kj/timer.h>

#include "common/base/backoff.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/network/network-config-plan.h"
#include "machined/resources/controller-outputs.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// The specs of another config's links, keys, addresses, routes and rules, for a preview by
// networkd. The messages hold secrets; the destructor overwrites them.
class NetworkSpecs {
 public:
  // `resolverAddresses` are those of NetworkPlan.
  NetworkSpecs(const KernelArguments& arguments, config::Machine::Reader machine, Store& store,
               kj::ArrayPtr<const Ip> resolverAddresses = nullptr);
  NetworkSpecs(NetworkSpecs&&) = default;
  ~NetworkSpecs() noexcept(false);
  size_t size() const;
  void fill(capnp::List<rpc::Resource>::Builder out);
  kj::ArrayPtr<const kj::String> problems() const { return plan.problems; }

 private:
  NetworkPlan plan;
  kj::Vector<kj::Own<OutputSet>> outputs;
};

// Returns the problems of the network's plan that the config causes. networkd does not report them:
// the plan leaves out the parts that they are about, so no spec has them.
kj::Vector<kj::String> networkConfigProblems(const KernelArguments& arguments,
                                             config::Machine::Reader machine, Store& store);

class NetworkController final : public Controller {
 public:
  // Returns the identity of the node, which is on STATE; nullptr while STATE is not mounted.
  using ReadIdentity = kj::Function<kj::Promise<kj::Maybe<kj::String>>()>;
  // Without `timer`, only a change of an input leads to another attempt to read the identity.
  NetworkController(
      const KernelArguments& arguments, ReadConfig readConfig,
      ReadIdentity readIdentity = []() -> kj::Promise<kj::Maybe<kj::String>> {
        return kj::Maybe<kj::String>();
      },
      kj::Maybe<kj::Timer&> timer = nullptr);

  kj::StringPtr name() const override { return "network.ConfigController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { wake = kj::mv(function); }

 private:
  const KernelArguments& arguments;
  ReadConfig readConfig;
  ReadIdentity readIdentity;
  kj::Maybe<kj::Timer&> timer;
  kj::Function<void()> wake = [] {};
  kj::String stableName;     // made of the identity; empty while it is not known
  kj::String identityError;  // that was logged
  Backoff identityPause{{1 * kj::SECONDS, 60 * kj::SECONDS}};
  kj::Promise<void> retrying = nullptr;
  kj::String reported;  // problems that were logged

  bool wantsStableName(Store& store);
  kj::Promise<void> findStableName();
  void apply(Store& store);
};

}  // namespace talos::machined
