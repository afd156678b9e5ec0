// Runs the joiner of this node (joiner.h) with the store, the resolver and the network.
//
// Reads JoinSpecs/api, TimeStatuses, NodeAddresses and ApiCertificates; writes ApiCertificates/api
// and JoinStatuses/api on nodes that get their certificate from trustd, and nothing on others.
#pragma once

#include <random>

#include "apid/identity/node-identity.h"
#include "apid/join/joiner.h"
#include "common/base/signal.h"
#include "common/wire/store-client.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::apid {

class JoinService final : private Joiner::Dependencies {
 public:
  // All arguments outlive it.
  JoinService(kj::AsyncIoContext& io, const kj::Clock& clock, StoreClient& store,
              NodeIdentity& identity);
  ~JoinService() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(JoinService);

  // Never resolves.
  kj::Promise<void> run();

 private:
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& eventPort;
  kj::Timer& timer;
  StoreClient& store;
  NodeIdentity& identity;
  std::minstd_rand generator{std::random_device{}()};
  Joiner joiner;
  // The report that the store does not have yet.
  struct Pending {
    kj::Maybe<JoinReport> report;  // nullptr: remove the report from the store
  };
  kj::Maybe<Pending> pending;
  Signal reportChanged;
  Watched<rpc::JoinSpec> specs;
  Watched<rpc::ApiCertificateSpec> certificates;
  Watched<rpc::TimeStatusSpec> times;
  Watched<rpc::NodeAddressSpec> addresses;

  void specChanged();
  void certificateChanged();
  void timeChanged();
  void addressesChanged();
  kj::Promise<void> storeReports();

  // --- Joiner::Dependencies ---
  double random() override;
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override;
  kj::Promise<TrustdAnswer> requestCertificate(TrustdRequest request) override;
  kj::Promise<void> storeIdentity(const Identity& identity) override;
  void report(JoinReport report) override;
  void clearReport() override;
};

}  // namespace talos::apid
