#include "etcd-supervisor/membership/peer-url.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "etcd-supervisor/membership/membership-lock.h"
#include "etcd-supervisor/plan/moved-member.h"

namespace talos::supervisor {
namespace {

kj::String peerUrlOf(const Config& config) {
  return urlOf(config.addresses[0], kEtcdPeerPort);
}

// Returns true if etcd runs with the address of the config: a member publishes its client URLs when
// it starts.
bool runsWithAddress(const etcd::Member& member, const Config& config) {
  for (auto& argument : config.extraArgs) {
    if (argument.key == "advertise-client-urls") return true;  // they do not show the address
  }
  return contains(member.clientUrls, urlOf(config.addresses[0], kEtcdPort));
}

// Returns the id of the local member if its URL must be changed outside of a turn; 0 otherwise.
etcd::MemberId memberToChange(const ObservedCluster& observed, const Config& config) {
  KJ_IF_MAYBE (local, observed.local) {
    KJ_IF_MAYBE (found, observed.find(local->member)) {
      auto& member = found->member;
      if (hasOtherPeerUrl(member, config) && runsWithAddress(member, config)) return member.id;
    }
  }
  return 0;
}

}  // namespace

kj::String otherPeerUrlOf(kj::StringPtr address) {
  auto ip = Ip::require(address);
  if (ip.family() == AF_INET) return urlOf(kj::str("::ffff:", ip.toString()), kEtcdPeerPort);
  constexpr char kDigits[] = "0123456789ABCDEF";
  kj::Vector<char> text;
  for (auto i : kj::indices(ip.bytes())) {
    if (i > 0 && i % 2 == 0) text.add(':');
    text.add(kDigits[ip.bytes()[i] >> 4]);
    text.add(kDigits[ip.bytes()[i] & 0xf]);
  }
  return urlOf(kj::heapString(text.begin(), text.size()), kEtcdPeerPort);
}

bool hasOtherPeerUrl(const etcd::Member& member, const Config& config) {
  if (member.learner) return false;
  return member.peerUrls.size() != 1 || !servesPeerUrl(member.peerUrls[0], config);
}

kj::Promise<bool> changePeerUrl(etcd::Etcd& through, const Config& config, etcd::MemberId own) {
  auto url = peerUrlOf(config);
  auto list = co_await through.members(true);
  kj::StringPtr holder;
  for (auto& member : list.members) {
    if (member.id != own && contains(member.peerUrls, url)) holder = member.name;
  }
  for (auto& member : list.members) {
    if (member.id != own || !hasOtherPeerUrl(member, config)) continue;
    auto before = joined(member.peerUrls);
    if (holder != nullptr) url = otherPeerUrlOf(config.addresses[0]);
    if (holder != nullptr && contains(member.peerUrls, url)) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the peer URL ", peerUrlOf(config), " of this node is still that of ", holder,
                   ", which changes it when its etcd runs; until then this member has ", url));
    }
    log::info("changing the peer URL of this node's member", {{"from", before}, {"to", url}});
    kj::Maybe<kj::Exception> failure;
    co_await through.updateMember(own, kj::arr(kj::str(url)))
        .ignoreResult()
        .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      fail(kindOf(*e), kj::str("cannot change the peer URL of this node's member from ", before,
                               " to ", url, ": ", messageOf(*e)));
    }
    co_return true;
  }
  co_return false;
}

kj::Promise<void> PeerUrl::settle(const ObservedCluster& observed,
                                  kj::ArrayPtr<const kj::String> known) {
  auto config = self.config();
  auto own = memberToChange(observed, config);
  if (own == 0) {
    if (differs) self.say(kj::String());
    differs = false;
    co_return;
  }
  differs = true;
  auto addresses = withLocal(known, deps.store.running());
  auto answer = co_await view.members(addresses);
  bool changed = false;
  co_await underLock(deps, self, answer.through, config.name, [&] {
    return changePeerUrl(answer.through, config, own).then([&](bool done) { changed = done; });
  });
  if (!self.busy()) self.say(kj::String());
  if (changed) self.changed.raise();
}

}  // namespace talos::supervisor
