#include "etcd-supervisor/membership/local-member.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "etcd-supervisor/membership/peer-queries.h"
#include "etcd-supervisor/plan/moved-member.h"

namespace talos::supervisor {
namespace {

// More control-plane nodes than any cluster has.
constexpr size_t kMostLearned = 16;

}  // namespace

Config LocalMember::config() {
  KJ_IF_MAYBE (config, deps.store.config()) {
    auto copy = config->clone();
    addPeers(copy, intent_.learnedPeers);
    copy.member = intent_.member;
    return copy;
  }
  fail(ErrorKind::kFailedPrecondition, "etcd runs on control-plane nodes only");
}

void LocalMember::load() {
  auto stored = deps.files.load();
  auto data = deps.files.data();
  bool sameBoot = deps.store.wanted() != nullptr;
  // Data that was still to be removed of a cluster that this node has left.
  if (stored.state == Intent::State::kLeft && data != Data::kNone && !sameBoot) {
    deps.files.removeData();
    data = deps.files.data();
  }
  auto next = atStart(stored, data, sameBoot);
  if (next.state != stored.state || next.member != stored.member) deps.files.store(next);
  intent_ = kj::mv(next);
  KJ_IF_MAYBE (wanted, deps.store.wanted()) routed_ = wanted->proxy.size() > 0;
  // The reboot may still come: the turn is for that, or ends with its lease.
  if (sameBoot) intent_.rebootLease = 0;
  bool restores = intent_.state == Intent::State::kMakes && intent_.recovers;
  if (!restores) deps.files.removeSnapshot();
  loaded = true;
  changed.raise();
}

void LocalMember::record(Intent next) {
  // Kept until it is a member, whatever it tries meanwhile.
  bool votes = next.state == Intent::State::kNone && data() == Data::kWhole;
  if (!votes) {
    for (auto& one : intent_.learnedPeers) addOnce(next.learnedPeers, kj::str(one));
  }
  bool keepsData = next.state == Intent::State::kNone || next.state == Intent::State::kLeaves;
  if (keepsData && recovering()) next.recovers = true;
  if (keepsData && data() == Data::kWhole) {
    auto known = intent_.clone();
    next.members = kj::mv(known.members);
    next.formerAddresses = kj::mv(known.formerAddresses);
  }
  write(kj::mv(next));
}

void LocalMember::recordRecovered() {
  auto next = intent_.clone();
  next.recovers = false;
  write(kj::mv(next));
}

void LocalMember::write(Intent next) {
  auto failure = kj::runCatchingExceptions([&] { deps.files.store(next); });
  KJ_IF_MAYBE (e, failure) {
    // The file may have its new name already: then it counts, for the next start would find it.
    intent_ = deps.files.load();
    changed.raise();
    kj::throwFatalException(kj::mv(*e));
  }
  if (next.state != intent_.state) {
    log::info("intent", {{"from", nameOf(intent_.state)}, {"to", nameOf(next.state)}});
  }
  intent_ = kj::mv(next);
  changed.raise();
}

void LocalMember::recordMember(etcd::MemberId member) {
  Intent next;
  next.member = member;
  record(kj::mv(next));
}

void LocalMember::recordRebootLease(etcd::LeaseId lease) {
  auto next = intent_.clone();
  next.rebootLease = lease;
  record(kj::mv(next));
}

void LocalMember::recordMembers(kj::ArrayPtr<const etcd::Member> members) {
  auto next = intent_.clone();
  if (talos::supervisor::recordMembers(next, members)) write(kj::mv(next));
}

void LocalMember::setRouted(bool now) {
  if (now == routed_) return;
  routed_ = now;
  log::info(now ? "etcd calls the other members through this node's proxy"_kj
                : "etcd calls the other members without the proxy"_kj);
  changed.raise();
}

BootstrapState LocalMember::bootstrapState() {
  if (!loaded) fail(ErrorKind::kUnavailable, "etcd-supervisor is starting");
  BootstrapState bootstrapState;
  bootstrapState.name = kj::str(config().name);
  bootstrapState.state = bootstrapStateOf(intent_, data(), claims());
  KJ_IF_MAYBE (since, claim) bootstrapState.since = *since;
  return bootstrapState;
}

void LocalMember::learnPeer(kj::StringPtr address) {
  auto bootstrapState = bootstrapStateOf(intent_, data(), claims());
  if (bootstrapState == BootstrapState::State::kMakes ||
      bootstrapState == BootstrapState::State::kMember)
    return;
  auto ip = Ip::require(address).unmapped();
  auto text = ip.toString();
  auto known = config();
  addPeers(known, kj::arr(kj::str(text)));
  if (known.peers.size() == config().peers.size()) return;
  if (intent_.learnedPeers.size() >= kMostLearned) {
    fail(ErrorKind::kUnavailable,
         kj::str("this node knows ", kMostLearned, " other nodes already, and cannot add ", text,
                 "; bootstrap it, or reset it"));
  }
  auto next = intent_.clone();
  next.learnedPeers.add(kj::mv(text));
  record(kj::mv(next));
}

kj::Own<LocalMember::Turn> LocalMember::take(kj::StringPtr what) {
  if (busy()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this node is busy: ", turn, message_.size() > 0 ? " (" : "", message_,
                 message_.size() > 0 ? ")" : "", "; wait, and look at talosctl get etcdstatus"));
  }
  turn = what;
  return kj::heap<Turn>(*this);
}

kj::Promise<void> LocalMember::untilNotJoining() {
  while (turn == kJoinTurn) co_await freed.next();
}

kj::Own<LocalMember::Claiming> LocalMember::claimNow() {
  auto since = (deps.clock.now() - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  messageChanged.raise();
  return kj::heap<Claiming>(*this, since);
}

kj::Own<LocalMember::Leaving> LocalMember::leaveNow() {
  return kj::heap<Leaving>(*this);
}

void LocalMember::leavingPublished() {
  knownToLeave = leaving;
  heard.raise();
}

kj::Promise<void> LocalMember::untilLeavingPublished() {
  while (!knownToLeave) co_await heard.next();
}

void LocalMember::say(kj::String text) {
  if (text == message_) return;
  if (text.size() > 0) log::info(text);
  message_ = kj::mv(text);
  messageChanged.raise();
}

}  // namespace talos::supervisor
