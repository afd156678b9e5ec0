// machined's store as vipd sees it. In: VipSpecs, HostnameSpecs, the services etcd and kubed,
// EtcdStatuses, EtcdSecrets/client and LocalApiStatuses. Out: VipStatuses.
//
// The TLS endpoint gets the certificate for etcd whenever it changes. The node is not a candidate
// without this certificate, or while its etcd does not run, is not healthy for longer than an
// election of etcd's leader (EtcdHealth), or leaves its cluster. It is not a candidate either while
// its API server fails to answer after having answered once (apiObstacle()).
#pragma once

#include <kj/timer.h>

#include "common/wire/store-adapter.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "vipd/vip-manager.h"

namespace talos::vipd {

// Returns the API server's problem that keeps this node from holding an address, if any. An API
// server that has not answered since the node started is not a problem: the address must exist
// before the first API server of a cluster does, and a freshly started node is as good as before. A
// status that is no longer updated is ignored. Pure.
kj::Maybe<kj::String> apiObstacle(kj::Maybe<rpc::LocalApiStatusSpec::Reader> api, bool watched);

// machined checks etcd every 5 s, and a check ends within 4 s: so long a bad result may be older
// than the recovery that it does not show.
constexpr kj::Duration kEtcdTolerance = 10 * kj::SECONDS;

// Decides from the state of service etcd whether it keeps this node from holding an address. Pure.
//
// When etcd loses its leader, every member is without one for 1 to 2 s, and one bad check would
// make all nodes leave the election for the 5 s until the next check: those that wait, too, which
// are to replace a holder that was lost with the leader. The election needs no such hint. A node
// whose etcd cannot reach a quorum renews no lease, so a holder loses the address within its lease,
// and a waiting node cannot get it. So a member that was healthy may be unhealthy for
// kEtcdTolerance. A member that has not been healthy since its start may be a learner, or in no
// cluster.
class EtcdHealth {
 public:
  void observe(bool running, bool healthy, kj::TimePoint now);
  // Returns the problem that keeps this node from holding an address, if any.
  kj::Maybe<kj::String> obstacle(kj::TimePoint now) const;
  // Returns the end of the tolerance, at which obstacle() changes without an observation; nullptr
  // if etcd is not being tolerated.
  kj::Maybe<kj::TimePoint> toleratedUntil(kj::TimePoint now) const;

 private:
  bool running = false, healthy = false;
  kj::Maybe<kj::TimePoint> until;  // end of the tolerance; nullptr before the first good check
};

class StoreAdapter final : public VipStore {
 public:
  // `changed` is called when wanted() may have changed. All arguments outlive the adapter.
  StoreAdapter(StoreClient& store, kj::Timer& timer, TlsEndpoint& tls,
               kj::Function<void()> changed);
  ~StoreAdapter() noexcept(false);

  kj::Maybe<Wanted> wanted() override;
  kj::Promise<void> publish(kj::Array<Shown> shown) override;

 private:
  StoreClient& store;
  kj::Timer& timer;
  TlsEndpoint& tls;
  StoreInputs inputs;
  Watched<rpc::VipSpecSpec> specs;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::ServiceSpec> services;
  Watched<rpc::EtcdSecretsSpec> secrets;
  Watched<rpc::EtcdStatusSpec> memberships;
  Watched<rpc::ServiceSpec> watchers;  // watches kubed
  Watched<rpc::LocalApiStatusSpec> apis;
  kj::Maybe<kj::String> noCredentials;  // why the credentials are missing
  EtcdHealth etcdHealth;
  kj::Maybe<kj::Promise<void>> toleranceEnd;

  void takeCredentials();
  void observeEtcd();
  kj::Maybe<kj::String> obstacle();
};

}  // namespace talos::vipd
