#include "talosctl/configure/follow-trial.h"

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/health/node-facts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/follow-node.h"

namespace talos::talosctl {
namespace {

constexpr auto kBeyond = 1 * kj::MINUTES;
constexpr size_t kMostNamed = 6;
constexpr auto kSilent = "the node does not answer, and goes back if that stays so"_kj;

// At another address than the one that the user named may be another machine.
void requireSame(const MovedNode& node, rpc::Status::Reader status, const TrialGoal& goal) {
  if (!node.isElsewhere() || status.getConfigSha256() == goal.document) return;
  fail(ErrorKind::kUnavailable, kj::str("another machine answers at ", node.name()));
}

kj::Promise<Judgement> look(Client& client, const MovedNode& node, const TrialGoal& goal) {
  auto call = client.node(node.name()).machineRequest().send().getMachine().statusRequest();
  auto status = co_await call.send();
  requireSame(node, status, goal);
  co_return judgeTrial(status, goal);
}

kj::Promise<Judgement> lookBoot(Client& client, const MovedNode& node, const TrialGoal& goal,
                                Outcome& outcome, kj::StringPtr bootId) {
  auto answers = co_await askNode(client.node(node.name()));
  requireSame(node, answers->status, goal);
  auto boot = outcome.answered(answers->version, answers->status, answers->services.getServices());
  if (answers->version.getBootId() == bootId) co_return kj::mv(boot);
  co_return judgeTrialBoot(answers->status, kj::mv(boot));
}

constexpr auto kReplaced = "the node runs another config: this one was replaced"_kj;

Judgement judgeWithoutTrial(rpc::Status::Reader status, const TrialGoal& goal) {
  bool runsIt = status.getConfigSha256() == goal.document;
  if (runsIt || goal.ifOnTrial) return {Verdict::kDone, kj::str("not on trial")};
  if (status.getConfigSha256().size() == 0) {
    return {Verdict::kWait, kj::str("the node has no config yet")};
  }
  return {Verdict::kFailed, kj::str(kReplaced, ", or never took effect")};
}

// The changes of others do not matter to a client that only has to reach the node.
Judgement judgeReplaced(const TrialGoal& goal) {
  return {goal.reach ? Verdict::kDone : Verdict::kFailed, kj::str(kReplaced)};
}

// Without a terminal each other text is a line, so the time has no seconds.
kj::String roughTime(uint64_t ms) {
  constexpr uint64_t kMinute = kj::MINUTES / kj::MILLISECONDS;
  auto minutes = ms / kMinute + (ms % kMinute > 0 ? 1 : 0);
  return durationText(static_cast<int64_t>(minutes) * kj::MINUTES);
}

kj::Maybe<Judgement> judgeReverted(rpc::ConfigTrial::Reader trial) {
  using State = rpc::ConfigTrial::State;
  auto state = trial.getState();
  if (state != State::REVERTING && state != State::REVERTED) return nullptr;
  return Judgement{Verdict::kFailed,
                   kj::str(state == State::REVERTED ? "the previous config is back: "
                                                    : "the previous config comes back: ",
                           printable(trial.getReason()))};
}

}  // namespace

Judgement judgeTrial(rpc::Status::Reader status, const TrialGoal& goal) {
  using State = rpc::ConfigTrial::State;
  auto trial = status.getConfigTrial();
  auto reverted = judgeReverted(trial);
  KJ_IF_MAYBE (failed, reverted) return kj::mv(*failed);
  if (trial.getState() == State::NONE) return judgeWithoutTrial(status, goal);
  // Mode try puts another config on top, for a while.
  bool isReplaced = status.getConfigSha256() != goal.document && status.getRevertsInMs() == 0;
  if (isReplaced) return judgeReplaced(goal);
  if (trial.getState() == State::CONFIRMED) return {Verdict::kDone, kj::str("confirmed")};
  if (goal.reach && trial.getReached()) return {Verdict::kDone, kj::str("reached")};
  auto lacks = printable(trial.getLacks());
  return {Verdict::kWait, kj::str("on trial, gives up within ", roughTime(trial.getLeftMs()),
                                  lacks.size() > 0 ? ": " : "", lacks)};
}

Judgement judgeTrialBoot(rpc::Status::Reader status, Judgement boot) {
  auto trial = status.getConfigTrial();
  auto reverted = judgeReverted(trial);
  KJ_IF_MAYBE (failed, reverted) return kj::mv(*failed);
  bool goesBack =
      boot.verdict == Verdict::kFailed && trial.getState() == rpc::ConfigTrial::State::TRYING;
  if (goesBack) boot.verdict = Verdict::kWait;
  return boot;
}

kj::String describeTrial(rpc::ApplyResult::Reader result, bool dryRun) {
  if (result.getTrialMs() == 0) return kj::String();
  auto duties = result.getTrialDuties();
  kj::Vector<kj::String> named;
  for (auto duty : duties) {
    if (named.size() < kMostNamed) named.add(printable(duty));
  }
  auto more = duties.size() - named.size();
  return kj::str(dryRun ? "would be on trial for at most " : "on trial for at most ",
                 durationText(static_cast<int64_t>(result.getTrialMs()) * kj::MILLISECONDS),
                 ": goes back unless the node does again what it did before",
                 named.empty() ? "" : ": ", kj::strArray(named, ", "),
                 more > 0 ? kj::str(" and ", more, " more") : kj::String());
}

namespace {

// Follows the trial to this goal. Each look has a new connection, because an earlier one may work
// although the new config refuses it.
kj::Promise<void> followTrial(Invocation& call, MovedNode& node, const TrialGoal& goal,
                              kj::Duration time, Progress& progress, size_t index) {
  Follower follower{.limit = call.deadline(time + kBeyond),
                    .look = [&](Client& client) { return look(client, node, goal); },
                    .silent =
                        [&](bool, kj::ArrayPtr<const kj::String>) {
                          node.next();
                          return Judgement{Verdict::kWait, kj::str(kSilent)};
                        },
                    .anew = true,
                    .target = kj::Function<Target()>([&]() { return node.target(); })};
  co_await follow(call, kj::mv(follower), progress, index);
}

// Follows the reboot into a config that is on trial for this time, until the services are up. Waits
// for the end of the trial: a node that the config cuts off goes back by another boot.
kj::Promise<void> followTrialBoot(Invocation& call, MovedNode& node, kj::StringPtr bootId,
                                  const TrialGoal& goal, kj::Duration time, Progress& progress,
                                  size_t index) {
  Outcome outcome(Outcome::Kind::kReboot, bootId);
  // The time begins after the boot, which may last as long.
  Follower follower{
      .limit = call.deadline(kOutcome + 2 * time),
      .look = [&](Client& client) { return lookBoot(client, node, goal, outcome, bootId); },
      .silent =
          [&](bool, kj::ArrayPtr<const kj::String>) {
            node.next();
            return outcome.silent();
          },
      .target = kj::Function<Target()>([&]() { return node.target(); })};
  co_await follow(call, kj::mv(follower), progress, index);
}

}  // namespace

kj::Promise<void> followConfig(Invocation& call, MovedNode& node, kj::StringPtr name,
                               const AppliedConfig& config, rpc::ApplyResult::Reader result,
                               Progress& progress, size_t index) {
  using rpc::ApplyMode;
  auto& settings = config.settings;
  auto mode = result.getMode();
  bool reboots = mode == ApplyMode::REBOOT, wasLost = config.answerWasLost;
  if (settings.dryRun) co_return;
  if (settings.noTrial || (result.getTrialMs() == 0 && !wasLost)) {
    if (!settings.wait || !reboots) co_return;
    co_return co_await follow(call, Outcome::Kind::kReboot, name, kj::str(result.getBootId()),
                              progress, index);
  }
  if (mode == ApplyMode::STAGED || mode == ApplyMode::TRY) co_return;
  if (!settings.wait && mode != ApplyMode::NO_REBOOT) co_return;
  Sha256 hash;
  hash.add(config.document.asBytes());
  TrialGoal goal{.document = hash.hex(), .reach = !settings.wait, .ifOnTrial = wasLost};
  auto time = result.getTrialMs() > 0 ? static_cast<int64_t>(result.getTrialMs()) * kj::MILLISECONDS
                                      : kj::max(settings.changeTrial, kUsualTrial);
  if (reboots) {
    co_await followTrialBoot(call, node, result.getBootId(), goal, time, progress, index);
  }
  co_await followTrial(call, node, goal, time, progress, index);
  if (settings.wait) call.err(kj::str(printable(name), ": confirmed: the config stays\n"));
}

}  // namespace talos::talosctl
