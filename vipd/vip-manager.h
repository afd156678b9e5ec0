// All shared addresses of this node: as many elections as the specs say, each with what the store,
// the kernel and etcd's service say of this host, and their statuses told to the store.
//
// Each address has a lease of its own: a host that has to leave one election leaves no other, and
// there are few addresses. What was changed in a spec ends the election and begins a new one. In
// the beginning, before anything is known, whatever an earlier life has left on any link is taken
// away: its lease may be over. It would go by its lifetime, too.
#pragma once

#include <map>

#include "vipd/shared-address.h"

namespace talos::vipd {

// What the store says.
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

class Board {
 public:
  virtual ~Board() noexcept(false) = default;
  // None until everything has arrived once.
  virtual kj::Maybe<Wanted> wanted() = 0;
  virtual kj::Promise<void> publish(kj::Array<Shown> shown) = 0;
};

class Vips final : private kj::TaskSet::ErrorHandler {
 public:
  // `monitor` is nobody else's; `work` is raised by whoever knows that board's answer changed.
  Vips(World& world, netlink::Monitor& monitor, Board& board, Signal& work);
  ~Vips() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Vips);

  // Runs until dropped.
  kj::Promise<void> run();
  // Leaves all elections, in order, and tells. Resolves after 6 s at the latest.
  kj::Promise<void> stop(kj::StringPtr why);

 private:
  using Addresses = std::map<Ip, kj::Own<SharedAddress>>;
  World& world;
  netlink::Monitor& monitor;
  Board& board;
  Signal& work;
  Signal tell;
  Addresses addresses, leaving;
  bool stopping = false, settled = false;
  bool again = false;  // apply() is to be tried again already
  kj::TaskSet tasks;

  kj::Promise<void> followBoard();
  kj::Promise<void> followKernel();
  kj::Promise<void> publish();
  void apply();
  void applyNow();
  void settle(kj::ArrayPtr<const Shown> shown);
  Seen look();
  kj::Promise<void> retire(Addresses::iterator which, kj::String why);
  kj::Array<Shown> shown() const;
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::vipd
