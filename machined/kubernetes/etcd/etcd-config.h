// etcd.ConfigController: etcd/EtcdConfigs[etcd], what the config of a control-plane node says of
// etcd and what follows from it: the member's name, the addresses that others may reach it at, and
// the other control-plane nodes.
//
// There on machines of type init and controlplane that know their name and have the addresses that
// the config wants; elsewhere not, and the log says what it waits for. A shared address is none of
// the node's own: it moves. After a crash of the brain it is made anew from the recovered store and
// comes out the same.
#pragma once

#include <kj/one-of.h>

#include "machined/config/controllers/controller-parts.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kEtcdId = "etcd"_kj;

// What it is made of.
struct EtcdNodeContext {
  kj::String hostname;
  kj::Vector<kj::String> addresses;  // of the node, the one that others know it by first
  kj::Vector<kj::String> shared;     // VIPs
};

bool runsEtcd(const MachineConfigView& config);

struct EtcdWaits {
  kj::String what;
};

// Subnets that do not parse were refused with the config.
kj::OneOf<kj::Own<capnp::MallocMessageBuilder>, EtcdWaits> planEtcd(const MachineConfigView& config,
                                                                    const EtcdNodeContext& at);

class EtcdConfigController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  explicit EtcdConfigController(ReadConfig readConfig) : readConfig(kj::mv(readConfig)) {}

  kj::StringPtr name() const override { return "etcd.ConfigController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  kj::String lastLogged;
};

// Not in the table of machined/config/controllers, which is below.
kj::Own<Controller> etcdConfigController(ControllerParts& parts);

}  // namespace talos::machined
