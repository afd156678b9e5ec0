// Probes this node's API server and publishes the verdict: LocalApiStatuses[kube-apiserver]. With
// it vipd decides whether this node may hold an address that leads to the API server.
//
// GET /readyz at the loopback address every kApiLook. The verdict changes when the answers have
// been opposite for kSteady, so a slow moment does not move an address to and fro. These count at
// once: the first good answer since the node was started; the answer that the server is about to
// end (check "shutdown", --shutdown-delay-duration), as long as it still serves; a closed port,
// because the server is gone; and the first good answer after one of the latter two. The verdict is
// a record of machined's store: after a crash of this program it continues from there, and starts
// again with each boot.
//
// kApiLook is half of the second that a kubelet of another release gives a static pod that it
// replaces.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr auto kApiLook = 500 * kj::MILLISECONDS, kApiAnswer = 2 * kj::SECONDS,
               kSteady = 8 * kj::SECONDS;

// State of the API server by its last answers. Pure.
class ApiVerdict {
 public:
  bool ready = false, everReady = false;
  kj::String message = kj::str("no answer yet");

  // Notes the result of one probe; `failure` is nullptr for a good answer. Returns true if the
  // verdict changes.
  bool take(kj::Maybe<kj::String> failure, kj::TimePoint now);

 private:
  kj::Maybe<kj::TimePoint> opposite;  // time since which answers contradict the verdict
  bool ending = false;                // verdict because the server ends or is gone
};

class LocalApiProbe {
 public:
  // All arguments must outlive this object. `clock`: the time of day.
  LocalApiProbe(kj::Timer& timer, const kj::Clock& clock, StoreClient& store,
                KubernetesStoreAdapter& adapter);
  KJ_DISALLOW_COPY_AND_MOVE(LocalApiProbe);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  StoreClient& store;
  KubernetesStoreAdapter& adapter;
  ApiVerdict verdict;
  kj::Date since = kj::UNIX_EPOCH;
  Signal arrived;
  Watched<rpc::LocalApiStatusSpec> before;  // record of an earlier process

  kj::Promise<void> recall();
  kj::Promise<kj::Maybe<kj::String>> probe();
  kj::Promise<bool> report();  // false if it could not be stored
};

}  // namespace talos::kubed
