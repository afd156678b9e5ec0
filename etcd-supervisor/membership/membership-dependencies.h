// Interfaces to the environment of membership: files, machined's store, other nodes, etcd. Tests
// have models of them (test-membership-bed.h), ../control the real ones.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/etcd/etcd.h"
#include "etcd-supervisor/plan/membership-phase.h"
#include "etcd-supervisor/plan/moved-member.h"

namespace talos::supervisor {

// The data directory, and the files that etcd-supervisor itself keeps beside it.
class Files {
 public:
  virtual ~Files() noexcept(false) = default;
  virtual Data data() = 0;
  virtual uint64_t freeBytes() = 0;  // on the file system of the data
  virtual Intent load() = 0;         // kNone if there is no intent; throws if it cannot be read
  // Stores the intent, which is on disk when the call returns. If it throws, load() says which
  // intent counts.
  virtual void store(const Intent& intent) = 0;
  virtual void removeData() = 0;
  virtual kj::StringPtr snapshot() = 0;  // path of a received snapshot
  virtual void removeSnapshot() = 0;     // may be absent
};

// Fields of EtcdStatuses/etcd.
struct Status {
  kj::StringPtr phase;
  kj::String member, leader;
  unsigned voters = 0, tolerates = 0;
  kj::String message;
  kj::Array<kj::String> alarms;
  kj::String changed;
};

class MembershipStore {
 public:
  virtual ~MembershipStore() noexcept(false) = default;
  virtual kj::Maybe<const Config&> config() = 0;  // nullptr: not known, or not a control-plane node
  virtual bool running() = 0;                     // true if the process of service etcd runs
  // Returns the shared addresses that vipd of this node has not given up. vipd gives them up when
  // etcd is leaving.
  virtual kj::Vector<kj::String> sharedAddresses() = 0;
  // Returns addresses of control-plane nodes, as the cluster's Kubernetes knows them; empty until
  // it has reported any. A node that looks for a cluster to join queries them too; they do not
  // prevent it from making a cluster, which only the nodes of config and talosconfig can.
  virtual kj::Vector<kj::String> kubernetesNodes() = 0;
  // Returns the node's addresses with the lengths of their subnets' prefixes.
  virtual kj::Vector<Prefix> subnets() = 0;
  // Returns the spec that this boot has published so far, also before a restart of this process;
  // nullptr if nothing was published yet.
  virtual kj::Maybe<const Wanted&> wanted() = 0;
  virtual kj::Promise<void> want(Wanted wanted) = 0;
  virtual kj::Promise<void> publish(const Status& status,
                                    kj::ArrayPtr<const etcd::Member> members) = 0;
};

// Machine APIs of other control-plane nodes. Every call has its own deadline.
class Peers {
 public:
  virtual ~Peers() noexcept(false) = default;
  virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) = 0;
  // `asker`: address of this node when it is about to make a cluster, otherwise empty.
  virtual kj::Promise<BootstrapState> bootstrapState(kj::StringPtr address,
                                                     kj::StringPtr asker) = 0;
  virtual kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr address) = 0;
};

class EtcdEndpoints {
 public:
  virtual ~EtcdEndpoints() noexcept(false) = default;
  // Returns the client port of etcd at this address. The reference stays valid until the end.
  virtual etcd::Etcd& at(kj::StringPtr address) = 0;
};

// Members at addresses that etcd does not know, and the proxy of this node that leads etcd there.
class MemberRoutes {
 public:
  virtual ~MemberRoutes() noexcept(false) = default;
  // Returns the peers at these addresses that have a certificate of cluster.etcd.ca for servers.
  // Sends none itself. Never rejects, and takes at most 5 s for 64 addresses.
  virtual kj::Promise<kj::Array<FoundMember>> find(kj::Vector<kj::String> places) = 0;
  // Opens the proxy, if it is closed, and replaces its routes; a connection for another host leads
  // to this host. Throws if the port is in use.
  virtual void lead(kj::Vector<MemberRoute> routes) = 0;
};

constexpr kj::StringPtr kLocal = "127.0.0.1"_kj;

// Time between a failed write to the store and the next one.
constexpr auto kStoreRetry = 1 * kj::SECONDS;

struct Dependencies {
  kj::Timer& timer;
  const kj::Clock& clock;
  kj::Function<double()> chance;  // [0, 1)
  Files& files;
  MembershipStore& store;
  Peers& peers;
  EtcdEndpoints& endpoints;
  MemberRoutes& routes;
  // Ends everything that must not outlive a snapshot, through the member that was restored from it:
  // no other node joins, and no bootstrap is answered, before it has resolved. Called again after
  // an error.
  kj::Function<kj::Promise<void>(etcd::Etcd& member)> recovered;
};

}  // namespace talos::supervisor
