#include "etcd-supervisor/membership/cluster-bootstrap.h"

#include "common/base/error.h"
#include "etcd-supervisor/plan/bootstrap-claim.h"

namespace talos::supervisor {
namespace {

constexpr auto kPause = 1 * kj::SECONDS;  // between rounds of asking

}  // namespace

void Bootstrap::requireEmpty() {
  auto phase = here.phase();
  if (phase == Phase::kWaiting) return;
  if (phase == Phase::kLeft && here.data() == Data::kNone) return;
  fail(ErrorKind::kFailedPrecondition,
       phase == Phase::kJoining ? kj::str("this node joins a cluster: ", here.message())
       : phase == Phase::kLeft
           ? kj::str("this node leaves its cluster; wait until its data is removed")
           : kj::str("the data directory ", kDataFolder,
                     " is not empty; etcd makes no new cluster over what is there"));
}

// Of this cluster alone.
kj::String Bootstrap::token() {
  constexpr kj::StringPtr kDigits = "0123456789abcdef"_kj;
  char text[32];
  for (char& c : text) c = kDigits[static_cast<size_t>(edges.chance() * 16)];
  return kj::heapString(text, sizeof text);
}

kj::Promise<void> Bootstrap::claim(const BootstrapRequest& request) {
  auto config = known(request);
  auto claiming = here.claimNow();
  auto until = edges.timer.now() + request.patience;
  for (;;) {
    auto answers =
        co_await askAll(edges, config, othersOf(config, request.without), config.addresses[0]);
    auto verdict = judge({config.name, claiming->since}, answers);
    if (verdict.what == Verdict::What::kWithdraw) {
      // Where this node will find the cluster, though its config may not name it.
      if (verdict.whose.size() > 0) here.hearOf(verdict.whose);
      fail(verdict.kind, verdict.why);
    }
    if (verdict.what == Verdict::What::kMake) {
      // In the same turn of the loop: whoever asks from now on hears of `makes`.
      Intent intent;
      intent.state = Intent::State::kMakes;
      intent.cluster = token();
      intent.recovers = request.receive != nullptr;
      intent.skipHashCheck = request.skipHashCheck;
      here.record(kj::mv(intent));
      co_return;
    }
    here.say(kj::str("asking the other control-plane nodes: ", verdict.why));
    if (edges.timer.now() + kPause >= until) {
      fail(verdict.kind,
           verdict.kind == ErrorKind::kUnavailable
               ? kj::str(verdict.why,
                         "; a node that cannot be asked may have a cluster: start it, or, "
                         "if it has none, leave it out with talosctl bootstrap "
                         "--without")
               : kj::mv(verdict.why));
    }
    co_await edges.timer.afterDelay(kPause);
    config = known(request);  // somebody may have asked meanwhile
  }
}

Config Bootstrap::known(const BootstrapRequest& request) {
  auto config = here.config();
  addPeers(config, request.among);
  return config;
}

kj::Promise<void> Bootstrap::decide(BootstrapRequest request) {
  requireEmpty();
  othersOf(known(request), request.without);  // wrong names are told before anything is done
  auto turn = here.take("it is told to make a cluster");
  bool receives = request.receive != nullptr;
  KJ_DEFER({
    if (here.intent().state != Intent::State::kMakes) {
      if (receives) edges.files.removeSnapshot();
      here.say(kj::String());
    }
  });
  KJ_IF_MAYBE (receive, request.receive) {
    here.say(kj::str("receiving a snapshot"));
    co_await (*receive)();
  }
  here.say(kj::str("asking the other control-plane nodes"));
  co_await claim(request);
  here.say(kj::str("making a new cluster"));
}

}  // namespace talos::supervisor
