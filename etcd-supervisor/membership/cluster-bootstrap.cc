#include "etcd-supervisor/membership/cluster-bootstrap.h"

#include "common/base/error.h"
#include "common/base/within.h"
#include "etcd-supervisor/plan/bootstrap-claim.h"

namespace talos::supervisor {
namespace {

constexpr auto kPause = 1 * kj::SECONDS;  // between rounds of asking

}  // namespace

void Bootstrap::requireEmpty() {
  auto phase = self.phase();
  if (phase == Phase::kWaiting) return;
  if (phase == Phase::kLeft && self.data() == Data::kNone) return;
  fail(ErrorKind::kFailedPrecondition,
       phase == Phase::kJoining ? kj::str("this node joins a cluster: ", self.message())
       : phase == Phase::kLeft
           ? kj::str("this node leaves its cluster; wait until its data is removed")
           : kj::str("the data directory ", kDataFolder,
                     " is not empty; etcd makes no new cluster over what is there"));
}

// Makes a token that is unique to this cluster.
kj::String Bootstrap::token() {
  constexpr kj::StringPtr kDigits = "0123456789abcdef"_kj;
  char text[32];
  for (char& c : text) c = kDigits[static_cast<size_t>(deps.chance() * 16)];
  return kj::heapString(text, sizeof text);
}

kj::Promise<void> Bootstrap::claim(const BootstrapRequest& request) {
  auto config = known(request);
  auto claiming = self.claimNow();
  auto until = deps.timer.now() + request.timeout;
  for (;;) {
    auto answers =
        co_await queryPeers(deps, config, othersOf(config, request.without), config.addresses[0]);
    auto verdict = judge({config.name, claiming->since}, answers);
    if (verdict.what == Verdict::What::kWithdraw) {
      // This node will find the cluster there, though its config may not name it.
      if (verdict.whose.size() > 0) self.learnPeer(verdict.whose);
      fail(verdict.kind, verdict.message);
    }
    if (verdict.what == Verdict::What::kMake) {
      // In the same turn of the loop: nodes that query this one from now on get `makes`.
      Intent intent;
      intent.state = Intent::State::kMakes;
      intent.cluster = token();
      intent.recovers = request.receive != nullptr;
      intent.skipHashCheck = request.skipHashCheck;
      self.record(kj::mv(intent));
      co_return;
    }
    self.say(kj::str("asking the other control-plane nodes: ", verdict.message));
    if (deps.timer.now() + kPause >= until) {
      fail(verdict.kind,
           verdict.kind == ErrorKind::kUnavailable
               ? kj::str(verdict.message,
                         "; a node that cannot be asked may have a cluster: start it, or, "
                         "if it has none, leave it out with talosctl bootstrap "
                         "--without")
               : kj::mv(verdict.message));
    }
    co_await deps.timer.afterDelay(kPause);
    config = known(request);  // another node may have queried this one meanwhile
  }
}

Config Bootstrap::known(const BootstrapRequest& request) {
  auto config = self.config();
  addPeers(config, request.among);
  return config;
}

kj::Promise<void> Bootstrap::decide(BootstrapRequest request) {
  requireEmpty();
  othersOf(known(request), request.without);  // wrong names are refused before anything is done
  co_await within(deps.timer, request.timeout, self.untilNotJoining(),
                  kj::str("this node tries to join a cluster, and has not ended in time"));
  requireEmpty();
  auto turn = self.take("it makes a cluster");
  bool receives = request.receive != nullptr;
  KJ_DEFER({
    if (self.intent().state != Intent::State::kMakes) {
      if (receives) deps.files.removeSnapshot();
      self.say(kj::String());
    }
  });
  KJ_IF_MAYBE (receive, request.receive) {
    self.say(kj::str("receiving a snapshot"));
    co_await (*receive)();
  }
  self.say(kj::str("asking the other control-plane nodes"));
  co_await claim(request);
  self.say(kj::str("making a new cluster"));
}

}  // namespace talos::supervisor
