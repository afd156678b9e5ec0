#include "vipd/shared-address.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <net/if_arp.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/netlink/netlink-codec.h"

namespace talos::vipd {

namespace {

// A leaving host must be fast: others wait, and it has to be gone within 10 s.
constexpr kj::Duration kLeavingCall = 500 * kj::MILLISECONDS;

uint32_t flagsFor(const Ip& address) {
  // The election ensures that no other host has the address, so duplicate detection is off; and the
  // node itself configures the network around the address.
  return address.family() == AF_INET6 ? IFA_F_NODAD | IFA_F_NOPREFIXROUTE : IFA_F_NOPREFIXROUTE;
}

}  // namespace

void takeAway(netlink::Kernel& kernel, kj::Maybe<const Ip&> address) {
  kj::Vector<netlink::Change> changes;
  for (auto& there : kernel.addresses()) {
    if (there.protocol != netlink::kSharedAddress) continue;
    KJ_IF_MAYBE (only, address) {
      if (there.prefix.address != *only) continue;
    }
    changes.add(netlink::DeleteAddress{there});
  }
  for (auto& result : kernel.apply(changes)) {
    KJ_IF_MAYBE (failure, result) {
      // The address has expired, or vanished with its link.
      if (failure->code == EADDRNOTAVAIL || failure->code == ENODEV) continue;
      fail(ErrorKind::kFailedPrecondition, kj::str(failure->message));
    }
  }
}

SharedAddress::SharedAddress(Dependencies& deps, const Ip& address, kj::String link,
                             kj::Duration ttl, kj::Function<void()> changed)
    : deps(deps),
      address(address),
      linkName(kj::mv(link)),
      ttl(ttl),
      changed(kj::mv(changed)),
      candidate(address, ttl, [&deps] { return deps.chance(); }),
      since(deps.calendar.now()),
      running(run().eagerlyEvaluate([](kj::Exception&& e) {
        log::error("the election has failed", {{"error", messageOf(e)}});
        kj::throwFatalException(kj::mv(e));
      })) {}

SharedAddress::~SharedAddress() noexcept(false) = default;

// --- inputs

// Returns the problem that keeps the link from having the address now.
kj::Maybe<kj::String> SharedAddress::findSegment(const Observed& observed) {
  segment = nullptr;
  for (auto& link : observed.links) {
    if (link.name != linkName) continue;
    if (!link.up()) return kj::str("link ", linkName, " is down");
    if (!link.carrier) return kj::str("link ", linkName, " has no carrier");
    if (link.type != ARPHRD_ETHER || link.hardwareAddress.size() != sizeof(Mac)) {
      return kj::str("link ", linkName, " is not an Ethernet link");
    }
    auto& found = segment.emplace();
    found.link = kj::str(linkName);
    found.index = link.index;
    memcpy(found.mac.data(), link.hardwareAddress.begin(), sizeof(Mac));
    return nullptr;
  }
  return kj::str("there is no link ", linkName);
}

// Neighbours know the old hardware address, or none if the link is new: the address has to be added
// again, and announced.
void SharedAddress::announceAnew() {
  announcing = nullptr;
  candidate.missing();
}

void SharedAddress::setHcloud(bool wanted, kj::StringPtr token, kj::Function<void()> found) {
  atHcloud = wanted;
  if (!wanted) {
    assignment = nullptr;
    hcloudToken = nullptr;
  } else if (token.size() > 0 && token != hcloudToken) {
    assignment = kj::heap<Assignment>(address, deps.timer, deps.chance, deps.hcloud(address, token),
                                      kj::mv(found));
    hcloudToken = kj::str(token);
    announcing = nullptr;
  }
}

// Returns the problem that keeps this host from having the address assigned, if it does not take
// part in the election yet: what a former look has found remains true, and a new token is no reason
// to give up the address.
kj::Maybe<kj::String> SharedAddress::findAtProvider(const Observed& observed,
                                                    kj::StringPtr instance) {
  if (!atHcloud) return nullptr;
  KJ_IF_MAYBE (it, assignment) {
    Machine self{.instance = kj::str(instance), .addresses = {}};
    for (auto& each : observed.addresses) {
      auto& own = each.prefix.address;
      if (each.protocol == netlink::kSharedAddress || own.isLoopback() || own.isLinkLocal())
        continue;
      self.addresses.add(own);
    }
    (*it)->look(kj::mv(self));
    if (candidate.takesPart()) return nullptr;
    return (*it)->obstacle();
  }
  return kj::str("waiting for the API token of Hetzner Cloud");
}

void SharedAddress::stand(kj::StringPtr host, kj::Maybe<kj::StringPtr> obstacle,
                          const Observed& observed, kj::StringPtr instance) {
  auto before = kj::mv(segment);
  auto onLink = findSegment(observed);
  auto atProvider = findAtProvider(observed, instance);
  KJ_IF_MAYBE (old, before) {
    KJ_IF_MAYBE (now, segment) {
      if (old->index != now->index || old->mac != now->mac) announceAnew();
    }
  }
  kj::Maybe<kj::String> all;
  KJ_IF_MAYBE (cause, retiring) {
    all = kj::str(*cause);
  } else KJ_IF_MAYBE (cause, obstacle) {
    all = kj::str(*cause);
  } else if (onLink != nullptr) {
    all = kj::mv(onLink);
  } else {
    all = kj::mv(atProvider);
  }
  candidate.stand(deps.clock.now(), host, kj::mv(all));
  if (candidate.holds()) {
    bool there = false;
    for (auto& each : observed.addresses) {
      there = there || (each.prefix.address == address && each.protocol == netlink::kSharedAddress);
    }
    if (!there) candidate.missing();
  }
  woken.raise();
}

kj::Promise<void> SharedAddress::retire(kj::StringPtr cause) {
  retiring = kj::str(cause);
  candidate.stand(deps.clock.now(), "", kj::str(cause));
  woken.raise();
  while (!candidate.gone()) co_await ended.wait();
}

// --- actions

kj::Promise<void> SharedAddress::run() {
  for (;;) {
    step();
    logChange();
    auto now = deps.clock.now();
    auto wait = candidate.wake(now) - now;
    co_await woken.wait().exclusiveJoin(deps.timer.afterDelay(wait));
  }
}

void SharedAddress::step() {
  for (;;) {
    auto action = candidate.next(deps.clock.now());
    KJ_IF_MAYBE (what, action) {
      perform(kj::mv(*what));
    } else {
      break;
    }
  }
  if (!candidate.holds()) {
    announcing = nullptr;
    KJ_IF_MAYBE (it, assignment) (*it)->leave();
  }
  if (!candidate.takesPart()) following = nullptr;
  if (candidate.gone()) ended.raise();
}

// Starts a call of the chain, which replaces the previous call.
template <typename T, typename Then>
void SharedAddress::call(kj::Promise<T> promise, Then&& then) {
  chain = promise
              .then([then = kj::mv(then)](T&& result) mutable { then(kj::mv(result)); },
                    [this](kj::Exception&& e) { candidate.failed(deps.clock.now(), messageOf(e)); })
              .then([this] { woken.raise(); })
              .eagerlyEvaluate(nullptr);
}

void SharedAddress::perform(Action action) {
  KJ_SWITCH_ONEOF(action) {
    KJ_CASE_ONEOF(grant, Grant) {
      return call(deps.etcd.grant(grant.ttl),
                  [this](etcd::Lease&& lease) { candidate.granted(deps.clock.now(), lease); });
    }
    KJ_CASE_ONEOF(request, Enter) {
      return enter(kj::mv(request));
    }
    KJ_CASE_ONEOF(look, Look) {
      return call(deps.etcd.range({.keys = {kj::mv(look.prefix), true}}),
                  [this](etcd::RangeResult&& keys) { candidate.saw(deps.clock.now(), keys); });
    }
    KJ_CASE_ONEOF(request, Follow) {
      following = follow(kj::mv(request)).eagerlyEvaluate(nullptr);
      return;
    }
    KJ_CASE_ONEOF(request, Release) {
      return release(kj::mv(request));
    }
    KJ_CASE_ONEOF(end, Revoke) {
      chain = deps.timer.timeoutAfter(kLeavingCall, deps.etcd.revoke(end.lease))
                  .catch_([](kj::Exception&&) {})  // then the lease expires by itself
                  .then([this] {
                    candidate.left(deps.clock.now());
                    woken.raise();
                  })
                  .eagerlyEvaluate(nullptr);
      return;
    }
    KJ_CASE_ONEOF(beat, Renew) {
      return renew(beat);
    }
    KJ_CASE_ONEOF(request, Put) {
      return put(request.stay);
    }
    KJ_CASE_ONEOF(request, Remove) {
      return remove();
    }
  }
}

void SharedAddress::enter(Enter action) {
  etcd::Txn txn;
  txn.compare = kj::arr(etcd::Compare::absent(kj::str(action.key)));
  txn.then =
      kj::arr(etcd::Operation(etcd::Put{kj::str(action.key), kj::mv(action.value), action.lease}));
  txn.otherwise = kj::arr(etcd::Operation(etcd::Range{.keys = {kj::mv(action.key)}}));
  call(deps.etcd.txn(kj::mv(txn)), [this](etcd::TxnResult&& result) {
    auto revision = result.revision;
    if (!result.succeeded) {
      // The key is ours: no other host has this lease. An answer was lost.
      auto& kvs = result.results[0].get<etcd::RangeResult>().kvs;
      if (kvs.size() == 0) return candidate.failed(deps.clock.now(), "the key was deleted");
      revision = kvs[0].createRevision;
    }
    candidate.entered(deps.clock.now(), revision);
  });
}

void SharedAddress::release(Release action) {
  etcd::Txn txn;
  txn.compare = kj::arr(etcd::Compare::created(kj::str(action.key), action.created));
  txn.then =
      kj::arr(etcd::Operation(etcd::Put{kj::mv(action.key), kj::str(kReleased), action.lease}));
  chain = deps.timer.timeoutAfter(kLeavingCall, deps.etcd.txn(kj::mv(txn)))
              .ignoreResult()
              .catch_([](kj::Exception&&) {})  // Then others wait a little longer.
              .then([this] {
                candidate.left(deps.clock.now());
                woken.raise();
              })
              .eagerlyEvaluate(nullptr);
}

kj::Promise<void> SharedAddress::follow(Follow action) {
  try {
    etcd::WatchRequest request;
    request.keys = {kj::mv(action.prefix), true};
    request.from = action.from;
    auto watch = co_await deps.etcd.watch(kj::mv(request));
    for (;;) {
      auto events = co_await watch->next();
      candidate.happened(deps.clock.now(), events);
      woken.raise();
    }
  } catch (...) {
    (void)kj::getCaughtExceptionAsKj();  // The next look fails again if etcd is the cause.
  }
  candidate.followEnded(deps.clock.now());
  woken.raise();
}

void SharedAddress::renew(const Renew& action) {
  auto id = action.lease;
  auto sent = deps.clock.now();
  renewals[renewalCount++ % kRenewalsAtOnce] =
      deps.timer.timeoutAfter(action.within, deps.etcd.keepAlive(id))
          .then(
              [this](etcd::Lease&& lease) {
                candidate.renewed(deps.clock.now(), lease);
                woken.raise();
              },
              [this, id, sent](kj::Exception&& e) {
                bool gone = kindOf(e) == ErrorKind::kNotFound;
                candidate.renewalFailed(deps.clock.now(), id, sent, gone, messageOf(e));
                woken.raise();
              })
          .eagerlyEvaluate(nullptr);
}

void SharedAddress::put(const Stay& stay) {
  KJ_IF_MAYBE (at, segment) {
    netlink::Address there = {.link = at->index,
                              .prefix = Prefix::host(address),
                              .flags = flagsFor(address),
                              .protocol = netlink::kSharedAddress};
    auto undo = netlink::encode(netlink::DeleteAddress{there});
    netlink::Change change =
        netlink::AddAddress{.address = there, .replace = true, .lifetime = stay.seconds};
    auto until = deps.clock.now() + stay.seconds * kj::SECONDS;
    kj::Maybe<kj::String> wrong;
    bool inTime = deps.guard.before(stay.latest, undo, [&] {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                     auto results = deps.kernel.apply(kj::arrayPtr(&change, 1));
                     KJ_IF_MAYBE (failure, results[0]) wrong = kj::mv(failure->message);
                   })) {
        wrong = messageOf(*e);
      }
    });
    KJ_IF_MAYBE (cause, wrong) {
      candidate.putFailed(deps.clock.now(), *cause);
    } else if (!inTime) {
      candidate.late(deps.clock.now());
    } else {
      presentUntil = until;
      candidate.taken();
      KJ_IF_MAYBE (it, assignment) {
        (*it)->hold();
      } else {
        if (announcing == nullptr) announcing = announce().eagerlyEvaluate(nullptr);
      }
    }
  } else {
    candidate.putFailed(deps.clock.now(), kj::str("there is no link ", linkName));
  }
}

void SharedAddress::remove() {
  announcing = nullptr;
  auto failure = kj::runCatchingExceptions([&] { takeAway(deps.kernel, address); });
  KJ_IF_MAYBE (e, failure) {
    log::error("cannot take the shared address off its link; retrying",
               {{"address", address}, {"link", linkName}, {"error", messageOf(*e)}});
  }
  candidate.removed(deps.clock.now(), failure == nullptr);
  if (failure == nullptr) endConnections();
}

// Connections of this node's kubelet are among them: without this call the kubelet waits for up to
// 45 s, and cannot report its pods' states while the node goes down.
void SharedAddress::endConnections() {
  auto failure = kj::runCatchingExceptions([&] { deps.endConnections(address); });
  KJ_IF_MAYBE (e, failure) {
    log::warn(
        "cannot end this node's own connections to the shared address; they end when they time out",
        {{"address", address}, {"error", messageOf(*e)}});
  }
}

kj::Promise<void> SharedAddress::announce() {
  auto begin = deps.timer.now();
  bool failed = false;
  for (unsigned n = 0;; ++n) {
    co_await deps.timer.atTime(begin + announcementAt(n));
    // If the address expired after this check and before the announcement, the announcement would
    // draw others to a host that has lost the address. The guard would end the process then, so no
    // announcement starts right before that time.
    if (deps.clock.now() + kLeastSlack > presentUntil) continue;
    KJ_IF_MAYBE (at, segment) {
      auto failure = kj::runCatchingExceptions([&] {
        deps.guard.before(presentUntil, nullptr, [&] { deps.announcer.announce(*at, address, n); });
      });
      KJ_IF_MAYBE (e, failure) {
        if (!failed) {
          log::warn("cannot announce the shared address; retrying",
                    {{"address", address}, {"link", linkName}, {"error", messageOf(*e)}});
        }
        failed = true;
      }
    }
  }
}

// --- state

void SharedAddress::logChange() {
  auto state = candidate.state();
  if (state == shown && candidate.holder() == shownHolder.c_str() &&
      candidate.reason() == shownReason.c_str()) {
    return;
  }
  if (state != shown) {
    if (state == Candidate::State::kHolder) {
      ++changes;
      log::info("holds the shared address", {{"address", address}, {"link", linkName}});
    } else if (shown == Candidate::State::kHolder) {
      log::info(kj::str("gave up the shared address: ", candidate.reason()),
                {{"address", address}, {"link", linkName}});
    }
    since = deps.calendar.now();
  }
  shown = state;
  shownHolder = candidate.holder().cStr();
  shownReason = candidate.reason().cStr();
  changed();
}

SharedAddress::Status SharedAddress::status() const {
  Status status;
  status.state = candidate.state();
  status.holder = kj::str(candidate.holder());
  status.reason = kj::str(candidate.reason());
  KJ_IF_MAYBE (it, assignment) {
    if (candidate.holds() && (*it)->problem().size() > 0) status.reason = kj::str((*it)->problem());
  }
  status.since = since;
  status.changes = changes;
  KJ_IF_MAYBE (end, candidate.leaseEnd()) {
    status.leaseUntil = deps.calendar.now() + (*end - deps.clock.now());
  }
  return status;
}

}  // namespace talos::vipd
