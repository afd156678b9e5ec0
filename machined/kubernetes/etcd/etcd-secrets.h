// secrets.EtcdController: secrets/EtcdSecrets, the certificates of etcd on a control-plane node.
//
//   etcd    of the member: `etcdPeer` towards other members and as a client, `server` of port 2379,
//           and `api`, with which etcd-supervisor queries apid of other control-plane nodes, as
//           reader
//   client  for connections of other programs of the node to etcd
//
// They are issued on this node, which has the keys of cluster.etcd.ca and machine.ca. Each is
// renewed only when its own inputs (CA, names, addresses) changed or half of its lifetime has
// passed; etcd reads its files at each handshake, so no restart is needed. No certificate has a
// shared address; those of the member also have former addresses (EtcdSpecs). Key operations run in
// the thread pool. A crash of the brain does not change them.
//
// Peers are verified by cluster.etcd.ca and those of cluster.etcd.acceptedCAs. When the two change
// places, as in a rotation (docs/trust.md), the text of both is the same: certificates are issued
// again, and no reader of the CAs is restarted. A member's certificate is followed by its CA as
// signed by those of acceptedCAs, for clients that know only the other CA.
#pragma once

#include <kj/timer.h>

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kEtcdClientId = "client"_kj;
// Lifetime of certificates that only members and this node's programs see. The API's have the
// lifetime of the config.
constexpr auto kEtcdLifetime = 365 * kj::DAYS;

// Returns PEM: the CA's own text, or, with additional CAs, all of them in a sorted order.
kj::String etcdAuthorities(config::Etcd::Reader etcd);

class EtcdSecretsController final : public Controller {
 public:
  // `lifetime`: of the certificates for etcd.
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
