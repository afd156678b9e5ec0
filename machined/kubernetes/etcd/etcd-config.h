// etcd.ConfigController: publishes etcd/EtcdConfigs[etcd], the settings of etcd on a control-plane
// node: the member's name, its addresses for other members, and the other control-plane nodes.
//
// The record exists on machines of type init and controlplane that have a name and the configured
// addresses; until then the log says which input is missing. A record that exists stays
// meanwhile, and says so too (waitsFor). A shared address does not count as the
// node's own, because it moves. Addresses of pods count only if advertisedSubnets or listenSubnets
// includes them. The present addresses stay as long as the links have them, with or without a
// carrier, because another address would restart etcd. After a crash of the brain the record is
// computed again from the recovered store, with the same content.
#pragma once

#include <kj/one-of.h>

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kEtcdId = "etcd"_kj;

// The facts of the node.
struct EtcdNodeContext {
  kj::String hostname;
  kj::Vector<kj::String> addresses;  // of the node, the default one first
  kj::Vector<kj::String> shared;     // VIPs
  kj::Vector<kj::String> pods;       // of links of pods
};

bool runsEtcd(config::Config::Reader config);

struct EtcdWaits {
  kj::String what;
};

// Plans the record. The checks of the config have refused invalid subnets.
kj::OneOf<kj::Own<capnp::MallocMessageBuilder>, EtcdWaits> planEtcd(config::Config::Reader config,
                                                                    const EtcdNodeContext& node);

// Returns what the node lacks for the record, nullptr for nothing.
kj::Maybe<kj::String> whatEtcdWaitsFor(Store& store, config::Config::Reader config);

class EtcdConfigController final : public Controller {
 public:
  explicit EtcdConfigController(ReadConfig readConfig) : readConfig(kj::mv(readConfig)) {}

  kj::StringPtr name() const override { return "etcd.ConfigController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  kj::String lastLogged;
};

// Not in the table of machined/config/controllers, which is a lower layer.
kj::Own<Controller> etcdConfigController(ControllerDependencies& deps);
// Publishes cluster.etcd.backup for etcd-supervisor (etcd-backup.cc).
kj::Own<Controller> etcdBackupController(ControllerDependencies& deps);

}  // namespace talos::machined
