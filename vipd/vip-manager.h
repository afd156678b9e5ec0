// Manages all shared addresses of this node: an election for each spec, with the state of the
// store, the kernel and etcd's service, and reports their statuses to the store.
//
// Each address has its own lease, so that leaving one election does not affect the others. This is
// cheap because there are few addresses. A changed spec ends the election and starts a new one. At
// the start, before any input is known, the manager removes addresses that an earlier process has
// left on any link, because their lease may have expired. They would expire by themselves, too.
//
// While the node shares an address, the manager also ends stalled connections between members of
// etcd, once a second. After a network that was cut for seconds is whole again, they would carry
// nothing for as long again (netlink-connections.h); if the leader's or the holder's node is lost
// in that time, the members that are left have no quorum and the address waits. etcd connects again
// by itself; what it wanted to send is lost, as it is with any broken connection. Members that
// answer are never disconnected.
#pragma once

#include <map>

#include "vipd/shared-address.h"

namespace talos::vipd {

// The specs of the store.
struct Wanted {
  struct Vip {
    Ip address;
    kj::String link;
    kj::Duration ttl;
    bool hcloud = false;     // Hetzner Cloud has to assign it
    kj::String hcloudToken;  // empty: not known yet
  };
  kj::Vector<Vip> vips;
  kj::String host;                 // empty: unknown
  kj::String instance;             // the machine's id in Hetzner Cloud; empty: unknown
  kj::Maybe<kj::String> obstacle;  // problem that keeps this node from holding any address
};

struct Shown {
  Ip address;
  kj::String link;
  SharedAddress::Status status;
};

class VipStore {
 public:
  virtual ~VipStore() noexcept(false) = default;
  // Returns nullptr until all inputs have arrived once.
  virtual kj::Maybe<Wanted> wanted() = 0;
  virtual kj::Promise<void> publish(kj::Array<Shown> shown) = 0;
};

class VipManager final : private kj::TaskSet::ErrorHandler {
 public:
  // `monitor` must not be shared; the caller raises `work` when wanted() would return something
  // new.
  VipManager(Dependencies& deps, netlink::Monitor& monitor, VipStore& store, Signal& work);
  ~VipManager() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(VipManager);

  // Runs until dropped.
  kj::Promise<void> run();
  // Leaves all elections, in order, and reports that. Resolves after 6 s at the latest.
  kj::Promise<void> stop(kj::StringPtr cause);

 private:
  using Addresses = std::map<Ip, kj::Own<SharedAddress>>;
  Dependencies& deps;
  netlink::Monitor& monitor;
  VipStore& store;
  Signal& work;
  Signal statusChanged;
  Addresses addresses, leaving;
  bool stopping = false, settled = false;
  bool again = false;  // A retry of apply() is scheduled.
  kj::TaskSet tasks;

  kj::Promise<void> followStore();
  kj::Promise<void> followKernel();
  kj::Promise<void> publish();
  kj::Promise<void> watchPeers();
  void apply();
  void applyNow();
  void settle(kj::ArrayPtr<const Shown> shown);
  Observed look();
  kj::Promise<void> retire(Addresses::iterator which, kj::String cause);
  kj::Array<Shown> shown() const;
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::vipd
