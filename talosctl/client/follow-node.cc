#include "talosctl/client/follow-node.h"

#include "common/base/error.h"
#include "common/health/node-facts.h"
#include "common/net/dns-resolver.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // deadline of one request while following
constexpr kj::Duration kPause = 500 * kj::MILLISECONDS;

}  // namespace

void addWaitFlag(Command& command, bool fallback) {
  command.flag({.name = "wait",
                .fallback = fallback ? "true"_kj : "false"_kj,
                .help = "wait for the outcome and show progress"});
}

void addRebootMode(Command& command, kj::StringPtr name) {
  command.flag({.name = name,
                .letter = "m",
                .kind = FlagKind::kText,
                .fallback = "default",
                .help = "how to start again; both go through the firmware",
                .choices = {"default", "powercycle"}});
}

namespace {

bool isAmong(kj::ArrayPtr<const kj::String> hosts, kj::StringPtr host) {
  auto same = [](kj::StringPtr text) { return asAddress(text).orDefault(kj::str(text)); };
  for (auto& one : hosts) {
    if (same(one) == same(host)) return true;
  }
  return false;
}

Target targetOf(Invocation& call, Follower& follower) {
  KJ_IF_MAYBE (target, follower.target) return (*target)();
  return resolveTarget(call);
}

}  // namespace

kj::Promise<void> follow(Invocation& call, Follower follower, Progress& progress, size_t index) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  kj::Maybe<kj::Own<Client>> client;
  for (;;) {
    kj::Maybe<Judgement> judgement;
    bool unreached = true;
    try {
      if (client == nullptr) client = kj::heap<Client>(call.deps, targetOf(call, follower));
      auto& one = *KJ_ASSERT_NONNULL(client);
      co_await one.connect(kAnswer);
      unreached = false;
      judgement = co_await within(timer, kAnswer, follower.look(one));
    } catch (const kj::Exception&) {
      // The node, or the endpoint, is shutting down or booting.
    }
    if (follower.anew && judgement != nullptr) client = nullptr;
    if (judgement == nullptr) {
      kj::ArrayPtr<const kj::String> endpoints;
      KJ_IF_MAYBE (c, client) endpoints = (*c)->endpoints();
      judgement = follower.silent(unreached, endpoints);
      client = nullptr;  // a machine that is off leaves a connection that looks alive
    }
    auto& j = KJ_ASSERT_NONNULL(judgement);
    if (j.verdict == Verdict::kFailed) fail(ErrorKind::kFailedPrecondition, j.text);
    if (j.verdict == Verdict::kDone) {
      progress.set(index, kj::str(j.text, " after ",
                                  durationText((timer.now() - start) / kj::SECONDS * kj::SECONDS)));
      co_return;
    }
    if (timer.now() - start > follower.limit) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(follower.limit), "; last state: ", j.text));
    }
    progress.set(index, j.text);
    co_await timer.afterDelay(kPause);
  }
}

kj::Promise<Judgement> judge(Client& client, kj::StringPtr name, Outcome& outcome) {
  auto answers = co_await askNode(client.node(name));
  co_return outcome.answered(answers->version, answers->status, answers->services.getServices());
}

kj::Promise<void> follow(Invocation& call, Outcome::Kind kind, kj::StringPtr node,
                         kj::String bootId, Progress& progress, size_t index, bool isEndpoint) {
  Outcome outcome(kind, bootId);
  Follower follower{.limit = call.deadline(kOutcome),
                    .look = [&](Client& client) { return judge(client, node, outcome); },
                    .silent =
                        [&](bool unreached, kj::ArrayPtr<const kj::String> endpoints) {
                          isEndpoint = isEndpoint || isAmong(endpoints, node);
                          return unreached && !isEndpoint ? outcome.unreached() : outcome.silent();
                        }};
  co_await follow(call, kj::mv(follower), progress, index);
}

}  // namespace talos::talosctl
