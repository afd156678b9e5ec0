// Manages all shared addresses of this node: an election for each spec, with the state of the
// store, the kernel and etcd's service, and reports their statuses to the store.
//
// Each address has a lease of its own: a host that has to leave one election leaves no other, and
// there are few addresses. A changed spec ends the election and starts a new one. At the start,
// before anything is known, addresses that an earlier life has left on any link are removed: their
// lease may have expired. They would expire by themselves, too.
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
  };
  kj::Vector<Vip> vips;
  kj::String host;                 // empty: not known yet
  kj::Maybe<kj::String> obstacle;  // why this node is not to hold any
};

struct Shown {
  Ip address;
  kj::String link;
  SharedAddress::Status status;
};

class VipStore {
 public:
  virtual ~VipStore() noexcept(false) = default;
  // None until everything has arrived once.
  virtual kj::Maybe<Wanted> wanted() = 0;
  virtual kj::Promise<void> publish(kj::Array<Shown> shown) = 0;
};

class VipManager final : private kj::TaskSet::ErrorHandler {
 public:
  // `monitor` is this object's own; `work` is raised by whoever knows that the store's answer
  // changed.
  VipManager(Dependencies& deps, netlink::Monitor& monitor, VipStore& store, Signal& work);
  ~VipManager() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(VipManager);

  // Runs until dropped.
  kj::Promise<void> run();
  // Leaves all elections, in order, and reports it. Resolves after 6 s at the latest.
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
  bool again = false;  // apply() is to be tried again already
  kj::TaskSet tasks;

  kj::Promise<void> followStore();
  kj::Promise<void> followKernel();
  kj::Promise<void> publish();
  void apply();
  void applyNow();
  void settle(kj::ArrayPtr<const Shown> shown);
  Observed look();
  kj::Promise<void> retire(Addresses::iterator which, kj::String cause);
  kj::Array<Shown> shown() const;
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::vipd
