// One shared address at this host: does what its Candidate says, with etcd, the kernel and the
// neighbours, and tells how it is.
//
// Owns nothing that outlives it: what is in the kernel ends by its lifetime, what is in etcd by its
// lease. After a crash at any line both go by themselves, and the next life begins by taking the
// address off all links. Nothing is waited for between the decision to give the kernel the address
// and the system call, and that is a guarded section (guarded-section.h).
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "vipd/guarded-section.h"
#include "vipd/vip-announcement.h"
#include "vipd/vip-candidate.h"

namespace talos::vipd {

// Everything that is not this program; outlives all that use it.
struct World {
  etcd::Etcd& etcd;
  kj::Timer& timer;
  // Whose time runs within a turn of the loop as well; that of the timer.
  const kj::MonotonicClock& clock;
  const kj::Clock& calendar;
  netlink::Kernel& kernel;
  Guard& guard;
  Announcer& announcer;
  kj::Function<double()> chance;  // in [0, 1)
  // Ends the TCP connections of this host to itself by an address that it has not got any more
  // (common/netlink/netlink-connections.h). May throw.
  kj::Function<void(const Ip& address)> endConnections;
};

// What the kernel has, as it was read last.
struct Seen {
  kj::Vector<netlink::Link> links;
  kj::Vector<netlink::Address> addresses;
};

// From every link; only those that vipd has put there. None: all of them, whatever they are.
void takeAway(netlink::Kernel& kernel, kj::Maybe<const Ip&> address);

class SharedAddress {
 public:
  // `changed`: the status is another one, apart from the lease's end.
  SharedAddress(World& world, const Ip& address, kj::String link, kj::Duration ttl,
                kj::Function<void()> changed);
  ~SharedAddress() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(SharedAddress);

  // `obstacle`: why this host may not hold it, apart from its link.
  void stand(kj::StringPtr host, kj::Maybe<kj::StringPtr> obstacle, const Seen& seen);
  // For good. Resolves when neither the kernel nor etcd has anything of it any more; does not when
  // the kernel refuses. etcd that does not answer is waited for twice 500 ms.
  kj::Promise<void> retire(kj::StringPtr why);

  struct Status {
    Candidate::State state = Candidate::State::kIdle;
    kj::String holder, reason;
    kj::Date since = kj::UNIX_EPOCH;
    kj::Maybe<kj::Date> leaseUntil;
    uint64_t changes = 0;
  };
  Status status() const;
  kj::StringPtr link() const { return linkName; }
  kj::Duration asked() const { return ttl; }

 private:
  World& world;
  Ip address;
  kj::String linkName;
  kj::Duration ttl;
  kj::Function<void()> changed;
  Candidate candidate;
  Signal told, ended;
  kj::Maybe<kj::String> retiring;
  kj::Maybe<Segment> segment;
  Candidate::State shown = Candidate::State::kIdle;
  std::string shownHolder, shownReason;
  kj::Date since;
  uint64_t changes = 0;
  kj::TimePoint presentUntil = kj::origin<kj::TimePoint>();  // the kernel has it at least so long
  kj::Maybe<kj::Promise<void>> chain, following, announcing;
  kj::Maybe<kj::Promise<void>> renewals[kRenewalsAtOnce];
  unsigned renewalCount = 0;
  kj::Promise<void> running;

  kj::Promise<void> run();
  void step();
  void perform(Action action);
  void enter(Enter action);
  void release(Release action);
  kj::Promise<void> follow(Follow action);
  void renew(const Renew& action);
  void put(const Stay& stay);
  void remove();
  void endConnections();
  kj::Promise<void> announce();
  void tellChange();
  kj::Maybe<kj::String> findSegment(const Seen& seen);
  void announceAnew();
  template <typename T, typename Then>
  void call(kj::Promise<T> promise, Then&& then);
};

}  // namespace talos::vipd
