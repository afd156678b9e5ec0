#include "machined/upgrade/upgrade-steps.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/text/size.h"

namespace talos::machined {
namespace {

using Activity = UpgradeActivity;
using Phase = UpgradePhase;
using install::nameOf;

constexpr unsigned kLeastHealthTimeoutS = 30;
// Limit of a reboot's wait for an etcd cluster that the node is to leave.
constexpr auto kStagedTimeout = 2 * kj::MINUTES;
// Limit of the wait for members of etcd that have failed during the drain, and its interval.
constexpr auto kSpareTimeout = 3 * kj::MINUTES, kSpareInterval = 5 * kj::SECONDS;

unsigned healthTimeoutOf(unsigned requested) {
  if (requested == 0) return install::kHealthTimeoutS;
  if (requested >= kLeastHealthTimeoutS && requested <= install::kMostHealthTimeoutS)
    return requested;
  fail(ErrorKind::kInvalidArgument,
       kj::str("the health timeout must be ", timeSpan(kLeastHealthTimeoutS), " to ",
               timeSpan(install::kMostHealthTimeoutS)));
}

}  // namespace

// --- upgrades

kj::Promise<void> UpgradeSteps::upgrade(UpgradeRequest request) {
  auto timeout = healthTimeoutOf(request.healthTimeoutS);
  auto origin = originOf(request);
  if (request.live) requireLive(request.preserve, request.stage);
  auto fetching = deps.progress.begin(Activity::kFetching, request.image);
  auto key = deps.node.imageKey();
  co_await deps.images.whenReady(origin);
  if (!request.force && !request.stage) co_await deps.clusters.requireSpare(request.preserve);
  auto image = co_await deps.images.get(request, kj::mv(origin), key);
  bool accepted = false, hasTurn = false;
  KJ_DEFER(if (image.wasKept && !accepted) deps.images.keep(kj::mv(image), kj::str(key)));
  auto facts = co_await factsOf(request, image, key.size() > 0);
  if (request.live) co_await KJ_ASSERT_NONNULL(deps.root).requireStated(kj::mv(facts.configKeys));
  KJ_DEFER(if (hasTurn && !accepted) deps.tasks.add(deps.clusters.stay()));
  if (request.preserve && !request.stage) {
    hasTurn = true;  // also if the answer is lost
    co_await takeTurn(request.force);
  }
  // The config can change in the minutes that a fetch takes.
  if (deps.node.imageKey() != key) {
    fail(ErrorKind::kConflict,
         "machine.install.imageKey was changed while the image was fetched; nothing was written; "
         "repeat the upgrade");
  }
  if (deps.progress.activity() != Activity::kFetching) {
    fail(ErrorKind::kConflict, "the node is rebooting; nothing was written");
  }
  accepted = true;
  deps.progress.enter(Activity::kWriting);
  deps.tasks.add(carryOut(kj::heap<UpgradePlan>(UpgradePlan{.image = kj::mv(request.image),
                                                            .system = kj::mv(image),
                                                            .preserve = request.preserve,
                                                            .force = request.force,
                                                            .stage = request.stage,
                                                            .live = request.live,
                                                            .healthTimeoutS = timeout})));
}

// Rejects if the image may not be installed. With `force`, one that cannot be written is refused
// all the same.
kj::Promise<SlotSwitch::Facts> UpgradeSteps::factsOf(const UpgradeRequest& request,
                                                     const VerifiedImage& image, bool isSigned) {
  if (request.force) return deps.slots.factsOf(image.content);
  return deps.admission.require(image, isSigned);
}

// Waits, because another control-plane node may be restarting.
kj::Promise<void> UpgradeSteps::takeTurn(bool force) {
  deps.progress.say(Activity::kFetching, "waiting until the etcd cluster can spare this node");
  return deps.clusters.leave(true, force);
}

// Runs the steps that change the node, under the lock of its sequences.
kj::Promise<void> UpgradeSteps::carryOut(kj::Own<const UpgradePlan> plan) {
  bool begun = false;
  kj::Maybe<kj::String> problem;
  // The error of a step has no prefix with the task's name, which the caller does not need.
  co_await deps.node
      .runSequence([&]() {
        begun = true;
        return write(*plan).catch_([&](kj::Exception&& e) {
          problem = messageOf(e);
          kj::throwFatalException(kj::mv(e));
        });
      })
      .catch_([&](kj::Exception&& e) {
        if (problem == nullptr) problem = messageOf(e);
      });
  co_await deps.images.release(plan->system);
  KJ_IF_MAYBE (reason, problem) co_return co_await abandon(*plan, begun, kj::mv(*reason));
  if (!plan->stage) co_return co_await rebootIntoOther();
  deps.progress.end(Activity::kWriting);
  deps.node.announce(kj::str("upgrade: staged: ", stagedReason(deps.records.current())));
}

// The caller keeps `plan`.
kj::Promise<void> UpgradeSteps::write(const UpgradePlan& plan) {
  auto record = deps.records.fresh(kj::str(plan.image));
  record.digest = kj::str(plan.system.digest);
  record.healthTimeoutS = plan.healthTimeoutS;
  record.empty = !plan.preserve;
  record.live = plan.live;
  auto slot = record.to;
  auto began = record.began;
  begin(kj::mv(record));
  co_await deps.records.saveDuties(began);
  co_await deps.records.save();
  deps.node.announce(kj::str("upgrade: writing ", plan.image, " to slot ", nameOf(slot)));
  deps.records.written(co_await deps.slots.write(plan.system.content));
  if (plan.stage) co_return co_await deps.records.staged(plan.force);
  if (plan.live) co_return co_await takeOver(plan.healthTimeoutS);
  deps.progress.say(Activity::kWriting, "draining the node");
  co_await deps.clusters.drain();
  deps.progress.say(Activity::kWriting, "");
  co_await leaveEtcd(plan);
  co_await deps.records.armed();
  co_await deps.slots.arm(plan.healthTimeoutS);
}

// Leaves etcd, or takes the turn again right before the node goes. The caller keeps `plan`.
kj::Promise<void> UpgradeSteps::leaveEtcd(const UpgradePlan& plan) {
  if (!plan.preserve) co_return co_await deps.clusters.leave(false, plan.force);
  if (plan.force) co_return;
  for (auto end = deps.timer.now() + kSpareTimeout;;) {
    kj::Maybe<kj::Exception> refusal;
    co_await deps.clusters.leave(true, false).catch_([&](kj::Exception&& e) {
      refusal = kj::mv(e);
    });
    KJ_IF_MAYBE (e, refusal) {
      if (deps.timer.now() >= end) kj::throwFatalException(kj::mv(*e));
      deps.progress.say(Activity::kWriting, messageOf(*e));
    } else {
      co_return;
    }
    co_await deps.timer.afterDelay(kSpareInterval);
  }
}

// Ends a plan that has failed. If it has not begun, the record is still that of an earlier upgrade.
kj::Promise<void> UpgradeSteps::abandon(const UpgradePlan& plan, bool begun, kj::String reason) {
  if (plan.hasTurn()) deps.tasks.add(deps.clusters.stay());
  deps.clusters.uncordon();
  if (!begun) {
    begin(deps.records.fresh(kj::str(plan.image)));
  } else if (deps.records.phase() == Phase::kArmed) {
    co_await deps.slots.revoke();
  }
  deps.progress.leave(Activity::kWriting);
  co_await deps.records.failed(kj::mv(reason));
}

void UpgradeSteps::begin(UpgradeRecord record) {
  deps.progress.awaited = nullptr;
  deps.records.begin(kj::mv(record));
}

kj::Promise<FetchedImage> UpgradeSteps::fetch(UpgradeRequest request, bool keep) {
  auto origin = originOf(request);
  auto fetching = deps.progress.begin(Activity::kFetching, request.image);
  auto key = deps.node.imageKey();
  bool isSigned = key.size() > 0;
  co_await deps.images.whenReady(origin);
  auto image = co_await deps.images.get(request, kj::mv(origin), key);
  auto facts = co_await factsOf(request, image, isSigned);
  FetchedImage result{kj::str(image.digest), kj::mv(facts.version), isSigned};
  deps.images.keep(kj::mv(image), kj::mv(key));
  if (!keep) co_await deps.images.drop();
  co_return kj::mv(result);
}

// --- rollbacks

kj::Promise<kj::Maybe<kj::String>> UpgradeSteps::rollBack(unsigned healthTimeoutS, bool force,
                                                          bool live) {
  auto timeout = healthTimeoutOf(healthTimeoutS);
  auto phase = deps.records.phase();
  if (phase == Phase::kStaged) co_return co_await withdraw();
  // A repeated rollback, after a rollback that withdrew a system, must not try a system that has
  // never run.
  if (phase == Phase::kWithdrawn) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("there is no system to roll back to: slot ", deps.records.current().target(),
                 " was staged and withdrawn, and has never run; upgrade again to run it"));
  }
  auto choosing = deps.progress.begin(Activity::kChoosing);
  auto next = co_await planRollback(timeout);
  if (live) {
    requireLive(true, false);
    next.live = true;
    co_await preparePrevious(kj::mv(next), force);
    deps.tasks.add(enterPrevious());
    co_return nullptr;
  }
  if (!force) co_await deps.clusters.requireSpare(true);
  co_await deps.records.saveDuties(next.began);
  co_await deps.clusters.leave(true, force);
  co_await choosePrevious(kj::mv(next));
  deps.tasks.add(rebootIntoOther());
  co_return nullptr;
}

// Returns the record of a rollback that is possible; changes nothing.
kj::Promise<UpgradeRecord> UpgradeSteps::planRollback(unsigned healthTimeoutS) {
  auto next = deps.records.fresh(kj::String());
  auto found = co_await deps.slots.look();
  if (found.state.confirmed != next.from) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("slot ", nameOf(next.from), " runs, but slot ", nameOf(found.state.confirmed),
                 " is the confirmed one; reboot into that first"));
  }
  next.healthTimeoutS = healthTimeoutS;
  next.stage = UpgradeRecord::Stage::WRITTEN;
  for (auto& system : found.systems) {
    if (system.slot == next.to) next.toVersion = kj::mv(system.version);
  }
  if (next.toVersion.size() == 0) {
    fail(ErrorKind::kNotFound,
         kj::str("there is no system in slot ", nameOf(next.to), " that could be rolled back to"));
  }
  co_return kj::mv(next);
}

// Rejects when the rollback has failed, and the record says so.
kj::Promise<void> UpgradeSteps::choosePrevious(UpgradeRecord next) {
  auto timeout = next.healthTimeoutS;
  begin(kj::mv(next));
  kj::Maybe<kj::Exception> problem;
  co_await deps.records.save()
      .then([&]() { return deps.slots.arm(timeout); })
      .catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  KJ_IF_MAYBE (e, problem) {
    co_await deps.slots.revoke();
    co_await deps.clusters.stay();
    // The caller gets the error, and the node has announced it.
    co_await deps.records.failed(messageOf(*e)).catch_([](kj::Exception&&) {});
    kj::throwFatalException(kj::mv(*e));
  }
}

kj::Promise<kj::Maybe<kj::String>> UpgradeSteps::withdraw() {
  auto choosing = deps.progress.begin(Activity::kChoosing);
  auto target = deps.records.current().target();
  co_await deps.records.withdrawn();
  deps.node.announce(kj::str("upgrade: ", deps.records.current().reason));
  co_return kj::mv(target);
}

// --- without a reboot

void UpgradeSteps::requireLive(bool preserve, bool stage) {
  if (!preserve || stage) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("an upgrade without a reboot ",
                 stage ? "cannot be staged" : "keeps EPHEMERAL, which is in use: use --preserve",
                 "; nothing was written"));
  }
  if (deps.root == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         "this node reboots for each system: only a node in a container can be upgraded without a "
         "reboot yet; leave out --live; nothing was written");
  }
}

// Does not resolve: the brain of the new system continues. Rejects if the running system stays.
kj::Promise<void> UpgradeSteps::takeOver(unsigned healthTimeoutS) {
  auto& root = KJ_ASSERT_NONNULL(deps.root);
  auto slot = deps.records.current().to;
  co_await root.prepare(slot);
  kj::Maybe<kj::Exception> problem;
  co_await deps.records.armed()
      .then([&]() {
        deps.node.announce(kj::str("upgrade: slot ", deps.records.current().target(),
                                   " takes over without a reboot"));
        return root.enter(slot, healthTimeoutS);
      })
      .catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  co_await root.abandon();
  KJ_IF_MAYBE (e, problem) kj::throwFatalException(kj::mv(*e));
}

// Rejects if the rollback is refused, or has failed and the record says so.
kj::Promise<void> UpgradeSteps::preparePrevious(UpgradeRecord next, bool force) {
  auto& root = KJ_ASSERT_NONNULL(deps.root);
  co_await root.prepare(next.to);
  Reached reached;
  kj::Maybe<kj::Exception> problem;
  co_await beginPrevious(kj::mv(next), force, reached).catch_([&](kj::Exception&& e) {
    problem = kj::mv(e);
  });
  KJ_IF_MAYBE (e, problem) {
    co_await root.abandon();
    if (reached.turn) co_await deps.clusters.stay();
    // The caller gets the error, and the node has announced it.
    if (reached.record) {
      co_await deps.records.failed(messageOf(*e)).catch_([](kj::Exception&&) {});
    }
    kj::throwFatalException(kj::mv(*e));
  }
}

kj::Promise<void> UpgradeSteps::beginPrevious(UpgradeRecord next, bool force, Reached& reached) {
  if (!force) co_await deps.clusters.requireSpare(true);
  co_await deps.records.saveDuties(next.began);
  reached.turn = true;  // also if the answer is lost
  co_await deps.clusters.leave(true, force);
  reached.record = true;
  begin(kj::mv(next));
  co_await deps.records.save();
}

kj::Promise<void> UpgradeSteps::enterPrevious() {
  auto choosing = deps.progress.begin(Activity::kWriting);
  auto& root = KJ_ASSERT_NONNULL(deps.root);
  auto& record = deps.records.current();
  deps.node.announce(kj::str("rollback: slot ", record.target(), " takes over without a reboot"));
  kj::Maybe<kj::String> problem;
  co_await deps.node.runSequence([&]() { return root.enter(record.to, record.healthTimeoutS); })
      .catch_([&](kj::Exception&& e) { problem = messageOf(e); });
  co_await root.abandon();
  co_await deps.clusters.stay();
  deps.progress.leave(Activity::kWriting);
  co_await deps.records.failed(kj::mv(problem).orDefault(kj::str("it did not take over")));
}

// --- reboots

kj::Promise<void> UpgradeSteps::tryStaged() {
  if (deps.records.phase() != Phase::kStaged) co_return;
  deps.progress.enter(Activity::kRebooting);
  kj::Maybe<kj::String> problem;
  co_await within(
      deps.timer, kStagedTimeout, chooseStaged(),
      kj::str("not ready to reboot into it within ", kStagedTimeout / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { problem = messageOf(e); });
  auto target = deps.records.current().target();
  KJ_IF_MAYBE (text, problem) {
    co_await deps.slots.revoke();
    auto reason = kj::str("the last reboot did not try it: ", *text);
    deps.node.announce(kj::str("upgrade: slot ", target, " stays staged; ", reason));
    co_return co_await deps.node.reported(deps.records.explained(kj::mv(reason)));
  }
  deps.node.announce(kj::str("upgrade: rebooting into slot ", target, ", which was staged"));
  deps.progress.show();
}

// The duties recorded when the system was staged count if the current ones cannot be recorded.
kj::Promise<void> UpgradeSteps::chooseStaged() {
  auto& staged = deps.records.current();
  bool leavesEtcd = staged.empty, forced = staged.forced;
  auto timeout = staged.healthTimeoutS;
  co_await deps.node.reported(deps.records.saveDuties(staged.began));
  if (leavesEtcd) co_await deps.clusters.leave(false, forced);
  co_await deps.slots.arm(timeout);
}

kj::Promise<void> UpgradeSteps::rebootIntoOther() {
  deps.progress.enter(Activity::kRebooting);
  KJ_IF_MAYBE (r, deps.records.record()) {
    deps.node.announce(kj::str(r->image.size() > 0 ? "upgrade" : "rollback",
                               ": rebooting into slot ", r->target()));
  }
  deps.progress.show();
  return deps.node.reboot("reboot into the system of the other slot, asked for through the API");
}

}  // namespace talos::machined
