#include "talosctl/configure/follow-trial.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/follow-node.h"

namespace talos::talosctl {
namespace {

constexpr auto kBeyond = 1 * kj::MINUTES;
constexpr size_t kMostNamed = 6;

kj::Promise<Judgement> look(Client& client, kj::StringPtr node, const TrialGoal& goal) {
  auto call = client.node(node).machineRequest().send().getMachine().statusRequest();
  auto status = co_await call.send();
  co_return judgeTrial(status, goal);
}

Judgement judgeWithoutTrial(rpc::Status::Reader status, const TrialGoal& goal) {
  bool runsIt = status.getConfigSha256() == goal.document;
  if (runsIt || goal.ifOnTrial) return {Verdict::kDone, kj::str("not on trial")};
  if (status.getConfigSha256().size() == 0) {
    return {Verdict::kWait, kj::str("the node has no config yet")};
  }
  return {Verdict::kFailed,
          kj::str("the node runs another config: this one was replaced, or never took effect")};
}

}  // namespace

Judgement judgeTrial(rpc::Status::Reader status, const TrialGoal& goal) {
  using State = rpc::ConfigTrial::State;
  auto trial = status.getConfigTrial();
  auto state = trial.getState();
  if (state == State::REVERTING || state == State::REVERTED) {
    return {Verdict::kFailed, kj::str(state == State::REVERTED ? "the previous config is back: "
                                                               : "the previous config comes back: ",
                                      printable(trial.getReason()))};
  }
  if (state == State::NONE) return judgeWithoutTrial(status, goal);
  if (state != State::TRYING) return {Verdict::kDone, kj::str("confirmed")};
  if (goal.reach && trial.getReached()) return {Verdict::kDone, kj::str("reached")};
  auto left = durationText(static_cast<int64_t>(trial.getLeftMs() / 1000) * kj::SECONDS);
  auto lacks = printable(trial.getLacks());
  return {Verdict::kWait,
          kj::str("on trial, gives up in ", left, lacks.size() > 0 ? ": " : "", lacks)};
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

kj::Promise<void> followTrial(Invocation& call, kj::StringPtr node, const TrialGoal& goal,
                              kj::Duration time, Progress& progress, size_t index) {
  Follower follower{.limit = call.deadline(time + kBeyond),
                    .look = [node, &goal](Client& client) { return look(client, node, goal); },
                    .silent =
                        [](bool, kj::ArrayPtr<const kj::String>) {
                          return Judgement{
                              Verdict::kWait,
                              kj::str("the node does not answer, and goes back if that stays so")};
                        },
                    .anew = true};
  co_await follow(call, kj::mv(follower), progress, index);
}

}  // namespace talos::talosctl
