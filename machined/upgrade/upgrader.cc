#include "machined/upgrade/upgrader.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kOwner = "runtime.Upgrades"_kj;
// A good config is confirmed within little more than a minute, and the fetch of a kubelet's image.
constexpr auto kConfigTrialEnds = 3 * kj::MINUTES, kLookAgain = 1 * kj::SECONDS;

}  // namespace

Upgrader::Upgrader(Dependencies d)
    : deps(kj::mv(d)),
      progress([this]() { publish(); }),
      records({.timer = deps.timer,
               .clock = deps.clock,
               .storage = deps.records,
               .node = deps.node,
               .running = deps.running,
               .version = deps.version,
               .changed = [this]() { publish(); }}),
      slots({.installer = deps.installer,
             .node = deps.node,
             .volumes = deps.volumes,
             .running = deps.running}),
      images({.timer = deps.timer,
              .containerd = deps.containerd,
              .archives = deps.archives,
              .node = deps.node,
              .progress = progress,
              .tasks = tasks}),
      admission({.slots = slots,
                 .storage = deps.records,
                 .node = deps.node,
                 .running = deps.running,
                 .version = deps.version}),
      trial({.timer = deps.timer,
             .process1 = deps.process1,
             .node = deps.node,
             .clusters = deps.clusters,
             .storage = deps.records,
             .records = records,
             .slots = slots,
             .admission = admission,
             .progress = progress,
             .running = deps.running,
             .version = deps.version,
             .timeLeft = deps.trialLeft,
             .root = deps.root}),
      wipe(deps.volumes, records, deps.node),
      steps({.timer = deps.timer,
             .node = deps.node,
             .clusters = deps.clusters,
             .images = images,
             .admission = admission,
             .slots = slots,
             .records = records,
             .progress = progress,
             .tasks = tasks,
             .root = deps.root}),
      tasks(*this) {}

void Upgrader::taskFailed(kj::Exception&& e) {
  deps.node.announceError(e);
}

void Upgrader::publish() {
  Outputs<rpc::UpgradeStatusSpec> outputs(kOwner);
  auto spec = outputs.add("node");
  fillStatus(spec, progress, records.record());
  spec.setVersion(deps.version);
  KJ_IF_MAYBE (slot, deps.running) spec.setSlot(install::nameOf(*slot));
  outputs.apply(deps.store);
}

// --- the start of a system

kj::Promise<void> Upgrader::resume(kj::Maybe<BeginsAnew> beginsAnew) {
  if (resumed || !hasSlots()) co_return;
  resumed = true;
  co_await records.load()
      .then([&]() { return concludeStart(beginsAnew); })
      .then([this]() { return trial.clearReasonInMeta(); })
      .catch_([this](kj::Exception&& e) {
        deps.node.announce(
            kj::str("upgrade: cannot find out which system is started next: ", messageOf(e)));
        publish();
      });
}

kj::Promise<void> Upgrader::concludeStart(kj::Maybe<BeginsAnew>& beginsAnew) {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  auto reasonInMeta = co_await trial.readReasonInMeta();
  auto found = co_await slots.look();
  auto finding = findingOf(records.record(), running, found.state, deps.entered);
  KJ_IF_MAYBE (root, deps.root) {
    co_await root->abandon();  // that a predecessor has prepared
    if (deps.entered) tasks.add(root->replaceServices());
  }
  if (finding == UpgradeFinding::kOnTrial) {
    beginTrial(found.state.confirmed);
    co_return co_await records.save();
  }
  if (deps.entered) tasks.add(deps.clusters.stay());
  co_await trial.settle();
  if (found.state.confirmed == running) {
    co_await deps.node.reported(admission.raiseFloor(found).ignoreResult());
  }
  switch (finding) {
    case UpgradeFinding::kFellBack:
      co_return co_await fellBack(kj::mv(reasonInMeta));
    case UpgradeFinding::kCutOff:
      co_return co_await cutOff(beginsAnew);
    case UpgradeFinding::kConfirmed:
      co_return co_await records.done(kj::String());
    case UpgradeFinding::kWaiting: {
      publish();
      bool isOver = records.record().map([](auto& r) { return r.isOver(); }).orDefault(false);
      if (isOver) co_return co_await slots.confirm();
      // The brain died between the boot loader's choice and the reboot.
      if (deps.process1.brainRestarts() > 0) tasks.add(steps.rebootIntoOther());
      break;
    }
    case UpgradeFinding::kStaged:
    case UpgradeFinding::kNothing:
    case UpgradeFinding::kOnTrial:
      publish();
  }
}

// A system that took over without a reboot has the turn that its predecessor took.
void Upgrader::beginTrial(install::Slot confirmed) {
  trial.begin(confirmed, deps.entered);
  auto ended = trial.run();
  if (deps.entered) ended = ended.then([this]() { return deps.clusters.stay(); });
  tasks.add(kj::mv(ended));
}

kj::Promise<void> Upgrader::fellBack(kj::Maybe<kj::String> reasonInMeta) {
  if (records.phase() == UpgradePhase::kNone) records.begin(records.fresh(kj::String()));
  auto& record = records.current();
  if (!record.isOver()) {
    co_await records.failed(
        fallbackReason(record, reasonInMeta.map([](kj::String& text) { return text.asPtr(); })));
  }
  co_await slots.confirm();
  publish();
}

// A machined that exits during the write may do so each time; a power cut does not recur.
kj::Promise<void> Upgrader::cutOff(kj::Maybe<BeginsAnew>& beginsAnew) {
  KJ_IF_MAYBE (ask, beginsAnew) {
    if (deps.process1.brainRestarts() == 0 && co_await (*ask)(records.current())) {
      co_return co_await records.retried();
    }
  }
  co_await records.failed(kj::str(
      "it was interrupted (a power cut, or a restart of machined) before the new system was "
      "ready to be tried"));
}

kj::Promise<void> Upgrader::bootFailed(kj::String problems) {
  if (resumed || deps.trialLeft == nullptr) co_return;
  co_await trial.giveUpBoot(kj::mv(problems));
}

kj::Promise<void> Upgrader::emptyEphemeralIfAsked() {
  return wipe.runIfDue(trial.hasBegun());
}

// --- requests

void Upgrader::requireIdle() const {
  if (deps.volumes == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         "the launcher of this container has given it no slots; restart the cluster with talosctl "
         "cluster stop and start, of this version, or create the node anew with another image");
  }
  if (deps.running == nullptr || !resumed) {
    fail(ErrorKind::kFailedPrecondition,
         "this node was not started from its disk, so there is no slot to upgrade; start it with "
         "another image instead");
  }
  if (trial.isPossible()) {
    fail(
        ErrorKind::kFailedPrecondition,
        "the system that runs is itself on trial; wait until talosctl get upgradestatus says done, "
        "keep it with talosctl confirm-upgrade, or return to the old one with talosctl reboot");
  }
  if (!progress.isIdle()) {
    fail(ErrorKind::kConflict, "an upgrade is under way; see talosctl get upgradestatus");
  }
}

// Waits while a config is on trial. The trial of a good one ends within minutes, and a client that
// has just changed the config may not know of it.
kj::Promise<void> Upgrader::awaitConfig() {
  giveWay();
  for (auto end = deps.timer.now() + kConfigTrialEnds;;) {
    requireIdle();
    auto onTrial = deps.configOnTrial();
    KJ_IF_MAYBE (why, onTrial) {
      if (deps.timer.now() >= end) fail(ErrorKind::kUnavailable, *why);
    } else {
      co_return;
    }
    co_await deps.timer.afterDelay(kLookAgain);
  }
}

void Upgrader::requireStill() {
  requireIdle();
  auto onTrial = deps.configOnTrial();
  KJ_IF_MAYBE (why, onTrial) fail(ErrorKind::kUnavailable, *why);
}

// Ends the upgrade by the config in favour of a request of the API.
void Upgrader::giveWay() {
  unasked.cancel(
      error(ErrorKind::kConflict, "an upgrade or a rollback was asked for through the API"));
}

kj::Promise<void> Upgrader::upgrade(UpgradeRequest request) {
  if (deps.configOnTrial() != nullptr) co_await awaitConfig();
  giveWay();
  requireStill();
  co_return co_await steps.upgrade(kj::mv(request));
}

// It is tried again, so it does not wait.
kj::Promise<void> Upgrader::upgradeByConfig(UpgradeRequest request) {
  requireStill();
  co_return co_await unasked.wrap(steps.upgrade(kj::mv(request)));
}

kj::Promise<Upgrader::Fetched> Upgrader::fetch(UpgradeRequest request, bool keep) {
  if (deps.configOnTrial() != nullptr) co_await awaitConfig();
  giveWay();
  requireStill();
  co_return co_await steps.fetch(kj::mv(request), keep);
}

// Continues without its caller: the boot loader's choice may already be made.
kj::Promise<kj::Maybe<kj::String>> Upgrader::rollback(unsigned healthTimeoutS, bool force,
                                                      bool live) {
  if (deps.configOnTrial() != nullptr) co_await awaitConfig();
  giveWay();
  requireStill();
  auto paf = kj::newPromiseAndFulfiller<kj::Maybe<kj::String>>();
  tasks.add(steps.rollBack(healthTimeoutS, force, live)
                .then(
                    [&fulfiller = *paf.fulfiller](kj::Maybe<kj::String> withdrawn) {
                      fulfiller.fulfill(kj::mv(withdrawn));
                    },
                    [&fulfiller = *paf.fulfiller](kj::Exception&& e) {
                      fulfiller.reject(kj::mv(e));  // the caller reports it
                    })
                .attach(kj::mv(paf.fulfiller)));
  co_return co_await kj::mv(paf.promise);
}

kj::Promise<kj::String> Upgrader::confirmTrial() {
  return trial.confirmAsItIs();
}

kj::Promise<void> Upgrader::tryStaged() {
  if (!resumed) return kj::READY_NOW;
  return steps.tryStaged();
}

void Upgrader::reportDrain(kj::StringPtr line) {
  progress.say(UpgradeActivity::kWriting, line);
}

// --- upgrades by the config

kj::Maybe<const UpgradeRecord&> Upgrader::newest() const {
  KJ_IF_MAYBE (r, records.record()) return *r;
  return nullptr;
}

bool Upgrader::isUnderWay() const {
  if (trial.isPossible() || !progress.isIdle()) return true;
  KJ_IF_MAYBE (r, records.record()) return !r->isOver();
  return false;
}

void Upgrader::await(kj::Maybe<Awaited> what) {
  progress.awaited = kj::mv(what);
  publish();
}

kj::Promise<void> Upgrader::refuse(kj::String image, kj::String reason) {
  progress.awaited = nullptr;
  records.begin(records.fresh(kj::mv(image)));
  return records.failed(kj::mv(reason));
}

// --- the capability Upgrades
namespace {

kj::Maybe<ClientFile> fileOf(rpc::ImageFile::Reader file) {
  if (!file.hasBytes()) return nullptr;
  return ClientFile{.bytes = file.getBytes(),
                    .size = file.getSize(),
                    .sha256 = kj::heapArray(file.getSha256()),
                    .signature = kj::heapArray(file.getSignature())};
}

// Returns the seconds of a request, as Upgrades.upgrade describes them.
unsigned timeoutOf(uint32_t seconds, bool live) {
  if (!live) return seconds;
  if (seconds < install::kLiveTimeout) {
    fail(ErrorKind::kInvalidArgument, kj::str("with `live`, healthTimeoutS is ",
                                              install::kLiveTimeout, " more than the seconds"));
  }
  return seconds - install::kLiveTimeout;
}

class UpgradesServer final : public rpc::Upgrades::Server {
 public:
  UpgradesServer(Upgrader& upgrader, kj::StringPtr bootId)
      : upgrader(upgrader), bootId(kj::str(bootId)) {}

  kj::Promise<void> upgrade(UpgradeContext context) override {
    auto params = context.getParams();
    context.getResults().setBootId(bootId);
    UpgradeRequest request{
        .image = kj::str(params.getImage()),
        .preserve = params.getPreserve(),
        .healthTimeoutS = timeoutOf(params.getHealthTimeoutS(), params.getLive()),
        .query = kj::str(params.getQuery())};
    request.force = params.getForce();
    request.stage = params.getStage();
    request.live = params.getLive();
    request.file = fileOf(params.getFile());
    return upgrader.upgrade(kj::mv(request));
  }
  kj::Promise<void> rollback(RollbackContext context) override {
    context.getResults().setBootId(bootId);
    auto params = context.getParams();
    return upgrader
        .rollback(timeoutOf(params.getHealthTimeoutS(), params.getLive()), params.getForce(),
                  params.getLive())
        .then([context](kj::Maybe<kj::String> withdrawn) mutable {
          KJ_IF_MAYBE (target, withdrawn) context.getResults().setWithdrawn(*target);
        });
  }
  kj::Promise<void> confirm(ConfirmContext context) override {
    context.getResults().setLacked(co_await upgrader.confirmTrial());
  }
  kj::Promise<void> fetch(FetchContext context) override {
    auto params = context.getParams();
    UpgradeRequest request{.image = kj::str(params.getImage()),
                           .query = kj::str(params.getQuery())};
    request.force = params.getForce();
    request.file = fileOf(params.getFile());
    auto fetched = co_await upgrader.fetch(kj::mv(request), params.getKeep());
    auto results = context.getResults();
    results.setDigest(fetched.digest);
    results.setVersion(fetched.version);
    results.setSigned(fetched.isSigned);
  }

 private:
  Upgrader& upgrader;
  kj::String bootId;
};

}  // namespace

rpc::Upgrades::Client serveUpgrades(Upgrader& upgrader, kj::StringPtr bootId) {
  return kj::heap<UpgradesServer>(upgrader, bootId);
}

}  // namespace talos::machined
