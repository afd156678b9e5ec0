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

}  // namespace

kj::Promise<void> follow(Invocation& call, Outcome::Kind kind, kj::StringPtr node,
                         kj::String bootId, Progress& progress, size_t index, bool isEndpoint) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  auto deadline = call.deadline(kOutcome);
  Outcome outcome(kind, bootId);
  kj::Maybe<kj::Own<Client>> client;
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<Judgement> judgement;
    bool requested = false;
    try {
      if (client == nullptr) client = kj::heap<Client>(call.deps, resolveTarget(call));
      auto& one = *KJ_ASSERT_NONNULL(client);
      isEndpoint = isEndpoint || isAmong(one.endpoints(), node);
      co_await one.connect(kAnswer);
      requested = true;
      judgement = co_await within(timer, kAnswer, judge(one, node, outcome));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    if (failure != nullptr) {
      client = nullptr;  // a machine that is off leaves a connection that looks alive
      judgement = requested || isEndpoint ? outcome.silent() : outcome.unreached();
    }
    auto& j = KJ_ASSERT_NONNULL(judgement);
    if (j.verdict == Verdict::kFailed) fail(ErrorKind::kFailedPrecondition, j.text);
    if (j.verdict == Verdict::kDone) {
      progress.set(index, kj::str(j.text, " after ",
                                  durationText((timer.now() - start) / kj::SECONDS * kj::SECONDS)));
      co_return;
    }
    if (timer.now() - start > deadline) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(deadline), "; last state: ", j.text));
    }
    progress.set(index, j.text);
    co_await timer.afterDelay(kPause);
  }
}

kj::Promise<Judgement> judge(Client& client, kj::StringPtr name, Outcome& outcome) {
  auto answers = co_await askNode(client.node(name));
  co_return outcome.answered(answers->version, answers->status, answers->services.getServices());
}

}  // namespace talos::talosctl
