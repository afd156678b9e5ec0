// secrets.EtcdController: secrets/EtcdSecrets, the certificates of etcd on a control-plane node.
//
//   etcd    of the member: `etcdPeer` towards other members and as a client, `server` of port 2379,
//           and `api`, with which etcd-supervisor asks apid of other control-plane nodes, as reader
//   client  what other programs of the node speak to etcd with
//
// Issued here, where the keys of cluster.etcd.ca and machine.ca are. Each is renewed only when its
// own inputs (CA, names, addresses) changed or half of its lifetime is over; etcd reads its files
// at each handshake, so nothing is restarted for them. A shared address is in none of them. Key
// operations run in the thread pool. After a crash of the brain they are as they were.
//
// Peers are verified by cluster.etcd.ca and those of cluster.etcd.acceptedCAs. When the two change
// places, as in a rotation (docs/trust.md), the text of both is the same: certificates are issued
// anew, and no reader of the CAs is restarted. Behind the certificates of a member is its CA as
// those of acceptedCAs signed it, for clients that know only the other one.
#pragma once

#include <kj/timer.h>

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kEtcdClientId = "client"_kj;
// For certificates that only members and this node's programs see. The API's have the lifetime of
// the config.
constexpr auto kEtcdLifetime = 365 * kj::DAYS;

// PEM: the CA's own text, or, with others beside it, all of them in an order of their own.
kj::String etcdAuthorities(config::Etcd::Reader etcd);

class EtcdSecretsController final : public Controller {
 public:
  // `lifetime`: of those for etcd.
  EtcdSecretsController(UvLoop& uv, kj::Timer& timer, const kj::Clock& clock, ReadConfig readConfig,
                        kj::Duration lifetime = kEtcdLifetime)
      : uv(uv),
        clock(clock),
        readConfig(kj::mv(readConfig)),
        lifetime(lifetime),
        renewal(timer, clock) {}

  kj::StringPtr name() const override { return "secrets.EtcdController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { renewal.wakeBy(kj::mv(function)); }

 private:
  UvLoop& uv;
  const kj::Clock& clock;
  ReadConfig readConfig;
  kj::Duration lifetime;
  RenewalTimer renewal;

  kj::Promise<void> maintain(Store& store, config::Config::Reader config, NodeNames names);
};

kj::Own<Controller> etcdSecretsController(ControllerDependencies& deps);

}  // namespace talos::machined
