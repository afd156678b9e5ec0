#include "etcd-supervisor/membership/local-member.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/texts.h"
#include "common/net/ip.h"
#include "etcd-supervisor/membership/peer-queries.h"

namespace talos::supervisor {
namespace {

// More control-plane nodes than any cluster has.
constexpr size_t kMostHeardOf = 16;

}  // namespace

Config Here::config() {
  KJ_IF_MAYBE (config, edges.board.config()) {
    auto copy = config->clone();
    addPeers(copy, intent_.heardOf);
    copy.member = intent_.member;
    return copy;
  }
  fail(ErrorKind::kFailedPrecondition, "etcd runs on control-plane nodes only");
}

void Here::load() {
  auto stored = edges.files.load();
  auto data = edges.files.data();
  bool sameBoot = edges.board.wanted() != nullptr;
  // What was left to be removed of a cluster that this node has left.
  if (stored.state == Intent::State::kLeft && data != Data::kNone && !sameBoot) {
    edges.files.removeData();
    data = edges.files.data();
  }
  auto next = atStart(stored, data, sameBoot);
  if (next.state != stored.state || next.member != stored.member) edges.files.store(next);
  intent_ = kj::mv(next);
  if (!intent_.recovers) edges.files.removeSnapshot();
  loaded = true;
  changed.raise();
}

void Here::record(Intent next) {
  // Until it is one of the cluster, whatever it tries meanwhile.
  bool votes = next.state == Intent::State::kNone && data() == Data::kWhole;
  if (!votes) {
    for (auto& one : intent_.heardOf) addOnce(next.heardOf, kj::str(one));
  }
  auto failure = kj::runCatchingExceptions([&] { edges.files.store(next); });
  KJ_IF_MAYBE (e, failure) {
    // It may have got as far as the name: then it counts, for the next start would find it.
    intent_ = edges.files.load();
    changed.raise();
    kj::throwFatalException(kj::mv(*e));
  }
  if (next.state != intent_.state) {
    log::info("intent", {{"from", nameOf(intent_.state)}, {"to", nameOf(next.state)}});
  }
  intent_ = kj::mv(next);
  changed.raise();
}

void Here::recordMember(etcd::MemberId member) {
  Intent next;
  next.member = member;
  record(kj::mv(next));
}

Standing Here::standing() {
  if (!loaded) fail(ErrorKind::kUnavailable, "etcd-supervisor is starting");
  Standing standing;
  standing.name = kj::str(config().name);
  standing.state = standingOf(intent_, data(), claims());
  KJ_IF_MAYBE (since, claim) standing.since = *since;
  return standing;
}

void Here::hearOf(kj::StringPtr address) {
  auto standing = standingOf(intent_, data(), claims());
  if (standing == Standing::State::kMakes || standing == Standing::State::kMember) return;
  auto ip = Ip::require(address).unmapped();
  auto text = ip.toString();
  auto known = config();
  addPeers(known, kj::arr(kj::str(text)));
  if (known.peers.size() == config().peers.size()) return;
  if (intent_.heardOf.size() >= kMostHeardOf) {
    fail(ErrorKind::kUnavailable, kj::str("this node has heard of ", kMostHeardOf,
                                          " others before ", text, "; bootstrap it, or reset it"));
  }
  auto next = intent_.clone();
  next.heardOf.add(kj::mv(text));
  record(kj::mv(next));
}

kj::Own<Here::Turn> Here::take(kj::StringPtr what) {
  if (busy()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this node is busy: ", turn, message_.size() > 0 ? " (" : "", message_,
                 message_.size() > 0 ? ")" : "", "; wait, and look at talosctl get etcdstatus"));
  }
  turn = what;
  return kj::heap<Turn>(*this);
}

kj::Own<Here::Claiming> Here::claimNow() {
  auto since = (edges.clock.now() - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  told.raise();
  return kj::heap<Claiming>(*this, since);
}

kj::Own<Here::Leaving> Here::leaveNow() {
  return kj::heap<Leaving>(*this);
}

void Here::leavingIsTold() {
  knownToLeave = leaving;
  heard.raise();
}

kj::Promise<void> Here::untilLeavingIsTold() {
  while (!knownToLeave) co_await heard.next();
}

void Here::say(kj::String text) {
  if (text == message_) return;
  if (text.size() > 0) log::info(text);
  message_ = kj::mv(text);
  told.raise();
}

}  // namespace talos::supervisor
