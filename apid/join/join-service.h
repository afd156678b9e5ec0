// The joiner of this machine (join.h), wired to the store, the resolver and the network.
//
// Reads JoinSpecs/api, TimeStatuses, NodeAddresses and ApiCertificates; writes ApiCertificates/api
// and JoinStatuses/api on machines that ask trustd, and nothing on others.
#pragma once

#include <random>

#include "apid/identity/node-identity.h"
#include "apid/join/joiner.h"
#include "common/base/signal.h"
#include "common/wire/store-client.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::apid {

class JoinService {
 public:
  // All of them outlive it.
  JoinService(kj::AsyncIoContext& io, const kj::Clock& clock, StoreClient& store, Trust& trust);
  ~JoinService() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(JoinService);

  // Never ends.
  kj::Promise<void> run();

 private:
  kj::Timer& timer;
  StoreClient& store;
  Trust& trust;
  std::minstd_rand generator{std::random_device{}()};
  Joiner joiner;
  // What is to be in the store, and has not got there yet.
  struct Untold {
    kj::Maybe<JoinReport> report;  // none: there shall be none
  };
  kj::Maybe<Untold> untold;
  Signal somethingToTell;
  Watched<rpc::JoinSpec> specs;
  Watched<rpc::ApiCertificateSpec> certificates;
  Watched<rpc::TimeStatusSpec> times;
  Watched<rpc::NodeAddressSpec> addresses;

  Joiner::Dependencies deps(kj::AsyncIoContext& io, const kj::Clock& clock);
  void specChanged();
  void certificateChanged();
  void timeChanged();
  void addressesChanged();
  kj::Promise<void> keep(const Identity& identity);
  void tell(kj::Maybe<JoinReport> report);
  kj::Promise<void> tellTheStore();
};

}  // namespace talos::apid
