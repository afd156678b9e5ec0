// The destinations of this node: those of LogDestinations in machined's store, with the headers of
// LogDestinationCredentials. A destination is created, or changed, when both records match.
// Receivers of events also get the machine's status. Writes LogDestinationStatuses, at most every
// two seconds. A removed destination's folder is removed too.
#pragma once

#include <map>

#include "common/wire/store-client.h"
#include "logd/destination.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::logd {

class DestinationSet {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Function<double()>& random;
    DiskQueue& disk;
    StoreClient& store;
    rpc::Machined::Client machined;
    kj::String state;  // path of the folder
    kj::Function<Connection(const DestinationSettings&)> connector;
  };
  explicit DestinationSet(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(DestinationSet);

  kj::Promise<void> run();  // runs until dropped

 private:
  Dependencies deps;
  kj::String hostname;
  Signal changed;
  Watched<rpc::LogDestinationSpec> specs;
  Watched<rpc::LogDestinationCredentialsSpec> credentials;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::MachineStatusSpec> statuses;
  std::map<std::string, kj::Own<Destination>> destinations;

  kj::Promise<void> follow();
  void update(ResourceOf<rpc::LogDestinationSpec> spec);
  void removeOthers();
  kj::Promise<void> report();
};

}  // namespace talos::logd
