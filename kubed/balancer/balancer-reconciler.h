// Runs the node's balancer of API servers (KubePrism) as the config wants it
// (KubePrismConfigs[k8s-loadbalancer-config]), and publishes its state: KubePrismStatuses[
// k8s-loadbalancer].
//
// The balancer listens while the config enables it, and again at another port when the config
// changes; open connections then end. Other servers change no connection. A port that is in use is
// in the state, and is tried again every kRefresh. A crash ends all connections; after the restart
// the balancer listens as soon as the store has sent the config, and knows all servers again.
#pragma once

#include <capnp/common.h>

#include "common/wire/store-client.h"
#include "kubed/balancer/api-balancer.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::kubed {

class BalancerReconciler {
 public:
  // All arguments must outlive this object.
  BalancerReconciler(ApiBalancer::Dependencies deps, StoreClient& store);
  KJ_DISALLOW_COPY_AND_MOVE(BalancerReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  struct Running {
    kj::String host;
    uint16_t port;
    kj::Own<ApiBalancer> balancer;
  };
  ApiBalancer::Dependencies deps;
  StoreClient& store;
  Signal changed;
  Watched<rpc::KubePrismConfigSpec> configs;
  kj::Maybe<Running> running;
  kj::String problem;  // why the balancer does not listen
  Health health = Health::kUnknown;
  kj::Maybe<kj::Array<capnp::word>> reported;  // the published state; empty: none

  void follow();
  void listen(kj::StringPtr host, uint16_t port);
  void fill(rpc::KubePrismStatusSpec::Builder out, rpc::KubePrismConfigSpec::Reader config);
  kj::Promise<void> report();
  void noteHealth(Health now);
};

}  // namespace talos::kubed
