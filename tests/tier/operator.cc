#include "tests/tier/operator.h"

#include "talosctl/cli/node-outcome.h"
#include "tests/tier/brain.h"

namespace talos::tier {
namespace {

using namespace talosctl;

constexpr auto kCall = 60 * kj::MILLISECONDS, kNoAnswer = 8 * kj::SECONDS;
constexpr unsigned kHealthTimeoutS = 30;

rpc::UpgradeStatusSpec::Reader statusOf(Brain& brain) {
  KJ_IF_MAYBE (found, brain.store.tryGet<rpc::UpgradeStatusSpec>("node")) return *found;
  fail(ErrorKind::kNotFound, "there is no upgrade status");
}

TargetImage targetOf(unsigned image) {
  return {.text = imageName(image), .digest = {}, .version = {}};
}

}  // namespace

Machine& Operator::at(kj::StringPtr node) {
  for (auto& machine : tier.machines) {
    if (machine->address == node) return *machine;
  }
  KJ_FAIL_REQUIRE("no such node", node);
}

// A message to the node, or back, takes a while or is lost.
kj::Promise<void> Operator::transfer(Machine& machine) {
  co_await tier.bed.delay(kCall);
  bool lost = tier.bed.losses > 0 && tier.bed.chance() < tier.bed.losses;
  if (!lost && !tier.operatorsAreCutOff[machine.index]) co_return;
  co_await tier.bed.timer.afterDelay(kNoAnswer);
  fail(ErrorKind::kUnavailable, "no answer within 8 s");
}

// Returns the brain that answers now. Valid until the caller suspends.
Brain& Operator::brainOf(Machine& machine) {
  bool answers = machine.on && machine.brain.get() != nullptr && machine.brain->isListening;
  if (!answers) fail(ErrorKind::kUnavailable, "Connection refused");
  return *machine.brain;
}

NodeSurvey Operator::surveyOf(Machine& machine) {
  NodeSurvey out;
  out.address = kj::str(machine.address);
  auto& brain = *machine.brain;
  out.hostname = kj::str(machine.member == nullptr ? "w" : "n", machine.index + 1);
  out.version = versionOf(machine.image());
  out.bootId = machine.bootId();
  out.stage = kj::str(brain.stage);
  out.freeBytes = 8ull << 30;
  KJ_IF_MAYBE (found, brain.store.tryGet<rpc::UpgradeStatusSpec>("node")) {
    auto& status = *found;
    out.upgrade = UpgradeState{.stage = kj::str(status.getStage()),
                               .slot = kj::str(status.getSlot()),
                               .version = kj::str(status.getVersion()),
                               .image = kj::str(status.getImage()),
                               .digest = kj::str(status.getDigest()),
                               .reason = kj::str(status.getReason())};
  }
  KJ_IF_MAYBE (node, machine.member) {
    out.controlPlane = true;
    out.etcdPhase = kj::str(node->status.phase);
    out.etcdMessage = kj::str(node->message.c_str());
    if (node->serves()) {
      out.etcdApplied = static_cast<uint64_t>(node->disk.cluster->store.revision) + 3;
    }
  }
  return out;
}

kj::Maybe<EtcdSurvey> Operator::etcdSurvey() {
  EtcdSurvey out;
  bool asked = false;
  for (auto& machine : tier.machines) {
    bool isControlPlane = machine->member != nullptr && machine->brain.get() != nullptr;
    asked = asked || (isControlPlane && machine->brain->isListening);
  }
  if (!asked) return nullptr;
  auto& cluster = *tier.bed.clusters[0];
  out.quorum = tier.bed.quorum() && cluster.leader != 0;
  for (auto& [id, state] : cluster.members) {
    auto& member = state.member;
    auto name = member.name.size() > 0 ? kj::str(member.name) : kj::str(kj::hex(id));
    out.members.add(EtcdSurvey::Member{kj::mv(name),
                                       kj::str(state.alive ? "" : "Connection refused"),
                                       member.learner, id == cluster.leader});
  }
  return kj::mv(out);
}

kj::Promise<ClusterSurvey> Operator::survey() {
  ClusterSurvey survey;
  auto reaching = KJ_MAP(machine, tier.machines) {
    return transfer(*machine).then([]() { return kj::String(); },
                                   [](kj::Exception&& e) { return messageOf(e); });
  };
  auto problems = co_await kj::joinPromises(kj::mv(reaching));
  for (auto& machine : tier.machines) {
    auto& problem = problems[machine->index];
    bool gone = machine->brain.get() == nullptr || !machine->brain->isListening;
    if (problem.size() == 0 && gone) problem = kj::str("Connection refused");
    if (problem.size() > 0) {
      auto& silent = survey.nodes.add();
      silent.address = kj::str(machine->address);
      silent.silence = kj::mv(problem);
    } else {
      survey.nodes.add(surveyOf(*machine));
    }
  }
  survey.etcd = etcdSurvey();
  co_return kj::mv(survey);
}

kj::Promise<RollingCluster::Look> Operator::look(kj::StringPtr node, kj::StringPtr before) {
  auto& machine = at(node);
  auto owned = kj::str(before);
  co_await transfer(machine);
  auto& brain = brainOf(machine);
  auto status = statusOf(brain);
  auto judgement = judgeUpgrade(owned, machine.bootId(), status, false);
  if (tier.mistakes.runBelievesReboots && status.getStage() == "rebooting") {
    judgement.verdict = Verdict::kDone;
  }
  co_return Look{kj::mv(judgement), kj::str(status.getDigest()), kj::str(status.getVersion())};
}

kj::Promise<FetchOutcome> Operator::fetch(kj::StringPtr node, const TargetImage& target, bool keep,
                                          Fetched progress) {
  FetchOutcome out;
  out.node = kj::str(node);
  auto image = kj::str(target.text);
  try {
    auto& machine = at(out.node);
    co_await transfer(machine);
    auto& brain = brainOf(machine);
    machined::UpgradeRequest request{.image = kj::mv(image)};
    auto found = co_await brain.call(brain.upgrader().fetch(kj::mv(request), keep));
    out.digest = kj::mv(found.digest);
    out.version = kj::mv(found.version);
  } catch (const kj::Exception& e) {
    out.error = messageOf(e);
  }
  co_return kj::mv(out);
}

kj::Promise<kj::String> Operator::upgrade(kj::StringPtr node, const TargetImage& target) {
  auto& machine = at(node);
  auto image = imageNamed(target.digest);
  co_await transfer(machine);
  auto& brain = brainOf(machine);
  auto boot = machine.bootId();
  machined::UpgradeRequest request{
      .image = imageName(image), .preserve = true, .healthTimeoutS = kHealthTimeoutS};
  co_await brain.call(brain.upgrader().upgrade(kj::mv(request)));
  machine.accepted = image;
  machine.isRolledBack = false;
  co_await transfer(machine);
  co_return kj::mv(boot);
}

kj::Promise<void> Operator::forfeit(kj::StringPtr node) {
  auto& machine = at(node);
  co_await transfer(machine);
  KJ_IF_MAYBE (member, machine.member) {
    if (member->process.get() == nullptr || member->process->dead) {
      fail(ErrorKind::kUnavailable, "etcd-supervisor does not run");
    }
    auto& process = *member->process;
    co_await process.canceler.wrap(process.reconciler.forfeitLeadership().ignoreResult());
  }
}

kj::Promise<void> Operator::upgradeAlone(Machine& machine, unsigned image, bool preserve,
                                         bool stage) {
  co_await transfer(machine);
  auto& brain = brainOf(machine);
  machined::UpgradeRequest request{
      .image = imageName(image), .preserve = preserve, .healthTimeoutS = kHealthTimeoutS};
  request.stage = stage;
  co_await brain.call(brain.upgrader().upgrade(kj::mv(request)));
  machine.accepted = image;
  machine.isRolledBack = false;
  co_await transfer(machine);
}

kj::Promise<void> Operator::rollBack(Machine& machine) {
  co_await transfer(machine);
  auto& brain = brainOf(machine);
  machine.isRolledBack = true;
  co_await brain.call(brain.upgrader().rollback(kHealthTimeoutS).ignoreResult());
}

kj::Promise<void> Operator::reboot(Machine& machine) {
  co_await transfer(machine);
  auto& brain = brainOf(machine);
  co_await brain.call(brain.rebootByOperator());
}

// --- a run

// Discards the output.
class Run::Silence final : public Console {
 public:
  void write(Stream, kj::ArrayPtr<const char>) override { ++texts; }
  bool outIsTerminal() const override { return false; }
  bool errIsTerminal() const override { return false; }
  bool inIsTerminal() const override { return false; }
  unsigned columns() const override { return 80; }
  unsigned rows() const override { return 24; }
  uint64_t written() const override { return texts; }

 private:
  uint64_t texts = 0;
};

Run::Run(Tier& tier, unsigned image)
    : image(image),
      tier(tier),
      console(kj::heap<Silence>()),
      cluster(tier),
      lines(*console, EventFormat::kText),
      run(tier.bed.timer, cluster, lines, targetOf(image),
          {.healthTimeout = kHealthTimeoutS * kj::SECONDS},
          [](kj::StringPtr) -> kj::Promise<bool> { return true; }),
      running(run.run()
                  .then(
                      [this](bool) {
                        state = State::kFinished;
                        this->tier.probe(Probe::kRunFinished);
                        this->tier.judges.judgeFinished(this->image);
                      },
                      [this](kj::Exception&& e) {
                        state = State::kStopped;
                        error = messageOf(e);
                        this->tier.probe(Probe::kRunStopped);
                      })
                  .eagerlyEvaluate(nullptr)) {}

}  // namespace talos::tier
