// Tells whether the API server of this node answers: LocalApiStatuses[kube-apiserver], by which
// vipd knows whether an address that leads to it is of use here.
//
// /readyz is asked at the loopback address every kLook. The verdict changes after kInARow answers
// of the other kind in a row, so neither a slow moment nor a server that crashes again and again
// moves an address to and fro; the first answer since the node was started is believed at once.
// The verdict is a record of machined's store: after a crash of this program it goes on from there,
// and begins anew with each boot.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr auto kApiLook = 2 * kj::SECONDS, kApiAnswer = 2 * kj::SECONDS;
constexpr unsigned kInARow = 5;

// What is known of the server. Pure.
class ApiVerdict {
 public:
  bool ready = false, everReady = false;
  kj::String message = kj::str("it has not answered yet");

  // None: it has answered well. Whether the verdict is another one now.
  bool take(kj::Maybe<kj::String> failure);

 private:
  unsigned otherwise = 0;  // answers in a row that are not as the verdict
};

class LocalApiKeeper {
 public:
  // All outlive it. `clock`: the time of day.
  LocalApiKeeper(kj::Timer& timer, const kj::Clock& clock, StoreClient& store,
                 KubernetesBoard& board);
  KJ_DISALLOW_COPY_AND_MOVE(LocalApiKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  StoreClient& store;
  KubernetesBoard& board;
  ApiVerdict verdict;
  kj::Date since = kj::UNIX_EPOCH;
  Signal arrived;
  Watched<rpc::LocalApiStatusSpec> before;  // what an earlier life has told

  kj::Promise<void> recall();
  kj::Promise<kj::Maybe<kj::String>> look();
  kj::Promise<bool> tell();  // false: nobody has heard it
};

}  // namespace talos::kubed
