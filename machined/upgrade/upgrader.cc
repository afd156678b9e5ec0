#include "machined/upgrade/upgrader.h"

#include <kj/debug.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/resources/controller-outputs.h"
#include "machined/upgrade/version-floor.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;
using install::nameOf;
using install::Slot;

constexpr kj::StringPtr kOwner = "runtime.Upgrades"_kj;
constexpr unsigned kLeastHealthTimeoutS = 30;
constexpr auto kForceHint = "; nothing was written; use --force to install it all the same"_kj;

unsigned healthTimeout(unsigned request) {
  if (request == 0) return install::kHealthTimeoutS;
  if (request >= kLeastHealthTimeoutS && request <= install::kMostHealthTimeoutS) return request;
  fail(ErrorKind::kInvalidArgument, kj::str("the health timeout must be ", kLeastHealthTimeoutS,
                                            " s to ", install::kMostHealthTimeoutS, " s"));
}

}  // namespace

Upgrader::Upgrader(Dependencies d)
    : deps(kj::mv(d)),
      slots(deps.installer, [this]() { return KJ_REQUIRE_NONNULL(deps.volumes).slots(); }),
      tasks(*this) {}

void Upgrader::taskFailed(kj::Exception&& e) {
  deps.node.announce(kj::str("upgrade: ", messageOf(e)));
}

kj::Promise<void> Upgrader::choose(Slot confirmed, kj::Maybe<Slot> attempt) {
  unsigned timeout = install::kHealthTimeoutS;
  KJ_IF_MAYBE (r, record) timeout = r->healthTimeoutS;
  return slots.choose(confirmed, attempt, timeout);
}

// --- the known state

// Saves one record at a time, and each save writes the state of its turn: of two at once, the older
// one might be written last. The wait for a disk that does not answer is limited.
kj::Promise<void> Upgrader::keep() {
  saving = saving.addBranch()
               .catch_([](kj::Exception&&) {})  // its caller reports it
               .then([this]() -> kj::Promise<void> {
                 KJ_IF_MAYBE (r, record) return deps.records.save(*r);
                 return kj::READY_NOW;
               })
               .fork();
  return within(deps.timer, kDiskTimeout, saving.addBranch(),
                kj::str("STATE: writing the record of the upgrade timed out after ",
                        kDiskTimeout / kj::SECONDS, " s"));
}

// Used during a trial: a STATE that cannot be written must not keep a bad system alive, nor end a
// good one.
kj::Promise<void> Upgrader::saveOrReport() {
  return keep().catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
}

kj::StringPtr Upgrader::stageName() const {
  if (fetching != nullptr) return "fetching";
  if (wanted != nullptr) return "writing";
  if (awaited != nullptr) return "waiting";
  KJ_IF_MAYBE (r, record) {
    switch (r->stage) {
      case Stage::WRITING:
        return "writing";
      case Stage::WRITTEN:
        if (r->staged && !rebooting) return "staged";
        return "rebooting";
      case Stage::GIVING_UP:
        return "rebooting";
      case Stage::STARTED:
        return "trying";
      case Stage::DONE:
        return "done";
      case Stage::FAILED:
        return r->isWithdrawn() ? "withdrawn" : "failed";
    }
  }
  return "none";
}

void Upgrader::publish() {
  Outputs<rpc::UpgradeStatusSpec> outputs(kOwner);
  auto spec = outputs.add("node");
  spec.setStage(stageName());
  spec.setCanStage(true);
  spec.setVersion(deps.version);
  KJ_IF_MAYBE (slot, deps.running) spec.setSlot(nameOf(*slot));
  KJ_IF_MAYBE (image, fetching) {
    spec.setImage(*image);
    spec.setReason(fetched);
  } else KJ_IF_MAYBE (a, awaited) {
    spec.setImage(a->image);
    spec.setReason(a->reason);
  } else KJ_IF_MAYBE (r, record) {
    spec.setImage(r->image);
    spec.setDigest(r->digest);
    spec.setTarget(r->target());
    spec.setBegan(dateText(r->began));
    if (r->isStaged() && !rebooting) {
      spec.setReason(stagedReason());
    } else {
      spec.setReason(drained.size() > 0 ? drained : r->reason);
    }
  }
  outputs.apply(deps.store);
}

kj::Promise<void> Upgrader::failed(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(record);
  r.stage = Stage::FAILED;
  r.staged = false;
  r.reason = kj::mv(reason);
  awaited = nullptr;
  deps.node.announce(kj::str(r.image.size() > 0 ? "upgrade" : "rollback", " failed: ", r.reason,
                             "; running slot ", nameOf(r.from), " (", deps.version, ")"));
  publish();
  return keep();
}

// --- requests

Slot Upgrader::requireIdle() {
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
  if (isTried()) {
    fail(
        ErrorKind::kFailedPrecondition,
        "the system that runs is itself on trial; wait until talosctl get upgradestatus says done, "
        "keep it with talosctl confirm-upgrade, or return to the old one with talosctl reboot");
  }
  if (fetching != nullptr || wanted != nullptr || rebooting) {
    fail(ErrorKind::kConflict, "an upgrade is under way; see talosctl get upgradestatus");
  }
  return KJ_ASSERT_NONNULL(deps.running);
}

// Ends the upgrade by the config in favour of a request of the API.
void Upgrader::giveWay() {
  unasked.cancel(
      error(ErrorKind::kConflict, "an upgrade or a rollback was asked for through the API"));
}

kj::Promise<void> Upgrader::upgrade(UpgradeRequest request) {
  giveWay();
  return get(kj::mv(request));
}

kj::Promise<void> Upgrader::upgradeByConfig(UpgradeRequest request) {
  return unasked.wrap(get(kj::mv(request)));
}

kj::Promise<void> Upgrader::get(UpgradeRequest request) {
  requireIdle();
  auto timeout = healthTimeout(request.healthTimeoutS);
  auto source = sourceOf(request);
  fetching = kj::str(request.image);
  KJ_DEFER({
    fetching = nullptr;
    fetched = kj::String();
    publish();
  });
  publish();
  auto key = deps.node.imageKey();
  co_await requireReady(source);
  if (!request.force && !request.stage) co_await deps.clusters.requireSpare(request.preserve);
  auto earlier = takeKept(source, key);
  bool wasKept = earlier != nullptr, goesOn = false;
  auto next = wasKept ? kj::mv(KJ_ASSERT_NONNULL(earlier)) : co_await obtain(request, source, key);
  KJ_DEFER(if (wasKept && !goesOn) keepForLater(kj::mv(next), kj::str(key)));
  if (!request.force) co_await requireFits(next, key.size() > 0);
  bool takesTurn = request.preserve && !request.stage;
  KJ_DEFER(if (takesTurn && !goesOn) tasks.add(deps.clusters.stay()));
  if (takesTurn) co_await takeRestartTurn(request.force);
  // The config can change in the minutes that a fetch takes.
  if (deps.node.imageKey() != key) {
    fail(ErrorKind::kConflict,
         "machine.install.imageKey was changed while the image was fetched; nothing was written; "
         "repeat the upgrade");
  }
  wanted = kj::mv(next);
  auto& w = KJ_ASSERT_NONNULL(wanted);
  w.image = kj::mv(request.image);
  w.preserve = request.preserve;
  w.force = request.force;
  w.stage = request.stage;
  w.healthTimeoutS = timeout;
  goesOn = true;
  tasks.add(carryOut());
}

// Waits, because another control-plane node may be restarting.
kj::Promise<void> Upgrader::takeRestartTurn(bool force) {
  fetched = kj::str("waiting until the etcd cluster can spare this node");
  publish();
  return deps.clusters.leave(true, force);
}

kj::Promise<void> Upgrader::requireFits(const Wanted& next, bool isSigned) {
  auto facts = co_await slots.factsOf(next.content);
  if (facts.configKeys.size() > 0) {
    auto unknown = deps.node.configKeysNotIn(facts.configKeys);
    if (unknown.size() > 0) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(next.digest, ": ", facts.version, " does not know ",
                   unknown.size() == 1 ? "a key" : "keys",
                   " of this node's config: ", kj::strArray(unknown, ", "), kForceHint));
    }
  }
  if (isSigned) co_await requireNotBelowFloor(next, facts.version);
}

kj::Promise<void> Upgrader::requireNotBelowFloor(const Wanted& next, kj::StringPtr version) {
  kj::String floor;
  co_await raiseFloor().then(
      [&](kj::String raised) { floor = kj::mv(raised); },
      [&](kj::Exception&& e) {
        fail(kindOf(e), kj::str(next.digest,
                                ": cannot find out the oldest version that a signed image may "
                                "have: ",
                                messageOf(e), kForceHint));
      });
  KJ_IF_MAYBE (refusal, belowFloor(version, floor)) {
    fail(ErrorKind::kFailedPrecondition, kj::str(next.digest, ": ", *refusal, kForceHint));
  }
}

// Waits until a node that is booting, and containerd if needed, can carry out a request.
kj::Promise<void> Upgrader::ready(bool containerd) {
  while (!deps.node.isBooted()) co_await deps.timer.afterDelay(kLookAgain);
  if (containerd) co_await deps.containerd.serving();
}

kj::Promise<void> Upgrader::carryOut() {
  problem = kj::String();
  kj::Maybe<kj::Exception> wrong;
  co_await deps.node.runSequence().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  auto image = kj::mv(KJ_ASSERT_NONNULL(wanted).image);
  bool viewed = KJ_ASSERT_NONNULL(wanted).content.is<ImageView>();
  bool stages = KJ_ASSERT_NONNULL(wanted).stage;
  bool hasTurn = KJ_ASSERT_NONNULL(wanted).preserve && !stages;
  rebooting = wrong == nullptr && !stages;  // no other upgrade begins from here to the reboot
  wanted = nullptr;
  // The view is not needed any more; the next one replaces it if it cannot be dropped now.
  if (viewed) {
    co_await dropView(deps.containerd, kj::str(kViewName)).catch_([](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (e, wrong) {
    if (hasTurn) tasks.add(deps.clusters.stay());
    deps.clusters.uncordon();
    bool begun = false;
    KJ_IF_MAYBE (r, record) begun = !r->isOver() && r->image == image;
    if (begun && KJ_ASSERT_NONNULL(record).stage == Stage::WRITTEN) co_await revoke();
    if (!begun) record = newRecord(kj::mv(image));
    co_return co_await failed(problem.size() > 0 ? kj::mv(problem) : messageOf(*e));
  }
  if (!stages) co_return co_await rebootInto();
  publish();
  deps.node.announce(kj::str("upgrade: staged: ", stagedReason()));
}

void Upgrader::reportDrain(kj::StringPtr line) {
  if (wanted == nullptr || line == drained) return;
  drained = kj::str(line);
  publish();
}

// Keeps the error without the task's name, which the sequence adds and the caller does not need.
kj::Promise<void> Upgrader::write() {
  return writeSlot().catch_([this](kj::Exception&& e) {
    problem = messageOf(e);
    kj::throwFatalException(kj::mv(e));
  });
}

kj::Promise<void> Upgrader::writeSlot() {
  auto& w = KJ_REQUIRE_NONNULL(wanted);
  auto& r = record.emplace(newRecord(kj::str(w.image)));
  r.digest = kj::str(w.digest);
  r.healthTimeoutS = w.healthTimeoutS;
  r.empty = !w.preserve;
  awaited = nullptr;
  publish();
  co_await recordDuties(r.began);
  co_await keep();
  deps.node.announce(kj::str("upgrade: writing ", w.image, " to slot ", nameOf(r.to)));
  r.toVersion = co_await slots.write(r.to, w.content, deps.node.kernelArguments());
  if (w.stage) co_return co_await stage();
  reportDrain("draining the node");
  co_await deps.clusters.drain();
  reportDrain("");
  if (!w.preserve) co_await deps.clusters.leave(false, w.force);
  r.stage = Stage::WRITTEN;
  co_await keep();
  co_await choose(r.from, r.to);
}

// Runs before the node stops any work for its cluster.
kj::Promise<void> Upgrader::recordDuties(kj::Date upgrade) {
  auto duties = co_await deps.node.duties();
  auto before = recordOf(duties, upgrade);
  for (auto& duty : duties) {
    if (duty.problem != nullptr) {
      deps.node.announce(kj::str("upgrade: the new system need not mend ", describe(duty)));
    }
  }
  co_await deps.records.saveDuties(before);
}

UpgradeRecord Upgrader::newRecord(kj::String image) const {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  // A half zeroed EPHEMERAL stays so, whatever is requested meanwhile.
  bool emptying = false;
  KJ_IF_MAYBE (r, record) emptying = r->emptying;
  return UpgradeRecord{.image = kj::mv(image),
                       .from = running,
                       .to = install::otherThan(running),
                       .fromVersion = kj::str(deps.version),
                       .emptying = emptying,
                       .began = deps.clock.now()};
}

// Continues without its caller: the boot loader's choice may already be made.
kj::Promise<kj::Maybe<kj::String>> Upgrader::rollback(unsigned healthTimeoutS, bool force) {
  giveWay();
  auto paf = kj::newPromiseAndFulfiller<kj::Maybe<kj::String>>();
  tasks.add(rollBack(healthTimeoutS, force)
                .then(
                    [&fulfiller = *paf.fulfiller](kj::Maybe<kj::String> withdrawn) {
                      fulfiller.fulfill(kj::mv(withdrawn));
                    },
                    [&fulfiller = *paf.fulfiller](kj::Exception&& e) {
                      fulfiller.reject(kj::mv(e));  // the caller reports it
                    })
                .attach(kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

kj::Promise<kj::Maybe<kj::String>> Upgrader::rollBack(unsigned healthTimeoutS, bool force) {
  auto running = requireIdle();
  auto timeout = healthTimeout(healthTimeoutS);
  KJ_IF_MAYBE (r, record) {
    if (r->isStaged()) co_return co_await withdraw();
    // A repeated rollback, after one that withdrew a system, must not try a system that has never
    // run.
    if (r->isWithdrawn()) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("there is no system to roll back to: slot ", r->target(),
                   " was staged and withdrawn, and has never run; upgrade again to run it"));
    }
  }
  rebooting = true;
  bool accepted = false;
  KJ_DEFER(rebooting = accepted);
  auto found = co_await slots.look();
  if (found.state.confirmed != running) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("slot ", nameOf(running), " runs, but slot ", nameOf(found.state.confirmed),
                 " is the confirmed one; reboot into that first"));
  }
  auto next = newRecord(kj::String());
  next.healthTimeoutS = timeout;
  next.stage = Stage::WRITTEN;
  for (auto& system : found.systems) {
    if (system.slot == next.to) next.toVersion = kj::mv(system.version);
  }
  if (next.toVersion.size() == 0) {
    fail(ErrorKind::kNotFound,
         kj::str("there is no system in slot ", nameOf(next.to), " that could be rolled back to"));
  }
  if (!force) co_await deps.clusters.requireSpare(true);
  co_await recordDuties(next.began);
  co_await deps.clusters.leave(true, force);
  record = kj::mv(next);
  awaited = nullptr;
  kj::Maybe<kj::Exception> wrong;
  co_await keep()
      .then([&]() { return choose(running, install::otherThan(running)); })
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    co_await revoke();
    co_await deps.clusters.stay();
    co_await failed(messageOf(*e)).catch_([](kj::Exception&&) {});  // which is already reported
    kj::throwFatalException(kj::mv(*e));
  }
  accepted = true;
  tasks.add(rebootInto());
  co_return nullptr;
}

kj::Promise<void> Upgrader::rebootInto() {
  rebooting = true;
  KJ_IF_MAYBE (r, record) {
    deps.node.announce(kj::str(r->image.size() > 0 ? "upgrade" : "rollback",
                               ": rebooting into slot ", r->target()));
  }
  publish();
  return deps.node.reboot("reboot into the system of the other slot, asked for through the API");
}

// --- upgrades by the config

kj::Maybe<const UpgradeRecord&> Upgrader::newest() const {
  KJ_IF_MAYBE (r, record) return *r;
  return nullptr;
}

bool Upgrader::isTried() const {
  return onTrial || (deps.trialLeft != nullptr && !settled);
}

bool Upgrader::isUnderWay() const {
  if (isTried() || fetching != nullptr || wanted != nullptr || rebooting) return true;
  KJ_IF_MAYBE (r, record) return !r->isOver();
  return false;
}

void Upgrader::await(kj::Maybe<Awaited> what) {
  awaited = kj::mv(what);
  publish();
}

kj::Promise<void> Upgrader::refuse(kj::String image, kj::String reason) {
  record = newRecord(kj::mv(image));
  return failed(kj::mv(reason));
}

}  // namespace talos::machined
