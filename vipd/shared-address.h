// One shared address at this host: performs the actions of its Candidate, with etcd, the kernel and
// the neighbours or the provider of their network, and reports its status.
//
// Owns nothing that outlives the process for good: the address in the kernel expires, and the key
// in etcd is removed with its lease. After a crash at any line both vanish by themselves, and the
// next process starts by removing the address from all links. What a provider has assigned stays
// until the next holder has it moved (provider.h). The code does not wait between the decision to
// give the kernel the address and the system call, which is a guarded section (guarded-section.h).
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "vipd/guarded-section.h"
#include "vipd/provider.h"
#include "vipd/vip-announcement.h"
#include "vipd/vip-candidate.h"

namespace talos::vipd {

// The external dependencies of vipd; they outlive all their users.
struct Dependencies {
  etcd::Etcd& etcd;
  kj::Timer& timer;
  // Advances also within a turn of the loop; shows the same time as the timer.
  const kj::MonotonicClock& clock;
  const kj::Clock& calendar;
  netlink::Kernel& kernel;
  Guard& guard;
  Announcer& announcer;
  kj::Function<double()> chance;  // in [0, 1)
  // Ends the TCP connections of this host to itself through an address that it has lost
  // (common/netlink/netlink-connections.h). May throw.
  kj::Function<void(const Ip& address)> endConnections;
  // Ends the connections between members of etcd at this host that are stalled, and returns their
  // number (same header). May throw.
  kj::Function<size_t()> endStalledPeers;
  // Makes the provider of an address in a project of Hetzner Cloud.
  kj::Function<kj::Own<Provider>(const Ip& address, kj::StringPtr token)> hcloud;
};

// The kernel's links and addresses, as last read.
struct Observed {
  kj::Vector<netlink::Link> links;
  kj::Vector<netlink::Address> addresses;
};

// Removes the address from every link if vipd added it; nullptr: removes all of vipd's addresses.
void takeAway(netlink::Kernel& kernel, kj::Maybe<const Ip&> address);

class SharedAddress {
 public:
  // `changed` is called when the status has changed, except for the lease's end.
  SharedAddress(Dependencies& deps, const Ip& address, kj::String link, kj::Duration ttl,
                kj::Function<void()> changed);
  ~SharedAddress() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(SharedAddress);

  // Says whether Hetzner Cloud has to assign the address to the holder, which then announces
  // nothing, and the token for its API; an empty token leaves the former one in use. `found` is
  // called when stand() should be called again.
  void setHcloud(bool wanted, kj::StringPtr token, kj::Function<void()> found);
  // `obstacle`: the problem that prevents this host from holding the address, apart from its link
  // and its provider. `instance` is the machine's id in its cloud; empty: unknown.
  void stand(kj::StringPtr host, kj::Maybe<kj::StringPtr> obstacle, const Observed& observed,
             kj::StringPtr instance);
  // Ends the election for good. Resolves when neither the kernel nor etcd has any trace of it;
  // never resolves if the kernel refuses. Waits twice 500 ms for an etcd that does not answer.
  kj::Promise<void> retire(kj::StringPtr cause);

  struct Status {
    Candidate::State state = Candidate::State::kIdle;
    kj::String holder, reason;
    kj::Date since = kj::UNIX_EPOCH;
    kj::Maybe<kj::Date> leaseUntil;
    uint64_t changes = 0;
  };
  Status status() const;
  kj::StringPtr link() const { return linkName; }
  kj::Duration requestedTtl() const { return ttl; }

 private:
  Dependencies& deps;
  Ip address;
  kj::String linkName;
  kj::Duration ttl;
  kj::Function<void()> changed;
  Candidate candidate;
  Signal woken, ended;
  kj::Maybe<kj::String> retiring;
  kj::Maybe<Segment> segment;
  bool atHcloud = false;
  kj::String hcloudToken;
  kj::Maybe<kj::Own<Assignment>> assignment;
  Candidate::State shown = Candidate::State::kIdle;
  std::string shownHolder, shownReason;
  kj::Date since;
  uint64_t changes = 0;
  kj::TimePoint presentUntil = kj::origin<kj::TimePoint>();  // The kernel has the address at least
                                                             // until this time.
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
  void logChange();
  kj::Maybe<kj::String> findSegment(const Observed& observed);
  kj::Maybe<kj::String> findAtProvider(const Observed& observed, kj::StringPtr instance);
  void announceAnew();
  template <typename T, typename Then>
  void call(kj::Promise<T> promise, Then&& then);
};

}  // namespace talos::vipd
