#include "machined/upgrade/upgrader.h"

#include <kj/debug.h>
#include <sys/mman.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/within.h"
#include "common/disk/empty-head.h"
#include "machined/foreign/parse-messages.h"
#include "machined/init/init-protocol.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;
using install::nameOf;
using install::Slot;

constexpr kj::StringPtr kOwner = "runtime.Upgrades"_kj, kViewName = "machined-upgrade"_kj;
constexpr auto kLookAgain = 1 * kj::SECONDS, kDiskPatience = 10 * kj::SECONDS,
               kReadyPatience = 2 * kj::MINUTES;
// A service that comes up and exits at once is not healthy.
constexpr auto kHealthyFor = 5 * kj::SECONDS;
constexpr unsigned kLeastHealthTimeoutS = 30;
constexpr size_t kMostName = 256, kMostWord = 4096;
constexpr kj::StringPtr kNotHealthy = "the system on trial was not healthy"_kj;

unsigned healthTimeout(unsigned wish) {
  if (wish == 0) return install::kHealthTimeoutS;
  if (wish >= kLeastHealthTimeoutS && wish <= install::kMostHealthTimeoutS) return wish;
  fail(ErrorKind::kInvalidArgument, kj::str("the health timeout must be ", kLeastHealthTimeoutS,
                                            " s to ", install::kMostHealthTimeoutS, " s"));
}

kj::String targetOf(const UpgradeRecord& record) {
  return kj::str(nameOf(record.to), record.toVersion.size() > 0 ? " " : "", record.toVersion);
}

}  // namespace

Upgrader::Upgrader(Dependencies d)
    : deps(kj::mv(d)), slots(deps.installer, kj::mv(deps.devices)), tasks(*this) {}

void Upgrader::taskFailed(kj::Exception&& e) {
  deps.tell(kj::str("upgrade: ", messageOf(e)));
}

kj::Promise<void> Upgrader::choose(Slot confirmed, kj::Maybe<Slot> attempt) {
  unsigned timeout = install::kHealthTimeoutS;
  KJ_IF_MAYBE (r, record) timeout = r->healthTimeoutS;
  return slots.choose(confirmed, attempt, timeout);
}

// --- what is known

// A disk that does not answer is no reason to wait for ever.
kj::Promise<void> Upgrader::keep() {
  KJ_IF_MAYBE (r, record) {
    return within(deps.timer, kDiskPatience, deps.save(*r),
                  kj::str("STATE did not take the record of the upgrade within ",
                          kDiskPatience / kj::SECONDS, " s"));
  }
  return kj::READY_NOW;
}

// During a trial: a STATE that cannot be written must not keep a bad system alive, nor end a good
// one.
kj::Promise<void> Upgrader::keepOrTell() {
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
      case Stage::GIVING_UP:
        return "rebooting";
      case Stage::STARTED:
        return "trying";
      case Stage::DONE:
        return "done";
      case Stage::FAILED:
        return "failed";
    }
  }
  return "none";
}

void Upgrader::publish() {
  Outputs<rpc::UpgradeStatusSpec> outputs(kOwner);
  auto spec = outputs.add("node");
  spec.setStage(stageName());
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
    spec.setTarget(targetOf(*r));
    spec.setBegan(dateText(r->began));
    spec.setReason(r->reason);
  }
  outputs.apply(deps.store);
}

kj::Promise<void> Upgrader::failed(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(record);
  r.stage = Stage::FAILED;
  r.reason = kj::mv(reason);
  awaited = nullptr;
  deps.tell(kj::str(r.image.size() > 0 ? "upgrade" : "rollback", " failed: ", r.reason,
                    "; running slot ", nameOf(r.from), " (", deps.version, ")"));
  publish();
  return keep();
}

// Process 1 no longer has to end a trial.
kj::Promise<void> Upgrader::settle() {
  int raw;
  KJ_SYSCALL(raw = memfd_create("settled", MFD_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  co_await deps.process1.hold(process1::kSettled, fd);
  settled = true;
}

// --- at the start

kj::Promise<void> Upgrader::resume(kj::Maybe<kj::String> wished) {
  if (resumed || !hasSlots()) co_return;
  resumed = true;
  co_await deps.load()
      .then([this, wished = kj::mv(wished)](kj::Maybe<UpgradeRecord> found) mutable {
        record = kj::mv(found);
        return findOut(kj::mv(wished));
      })
      .then([this]() { return dropWord(); })
      .catch_([this](kj::Exception&& e) {
        deps.tell(kj::str("upgrade: cannot tell which system is started next: ", messageOf(e)));
        publish();
      });
}

kj::Promise<void> Upgrader::findOut(kj::Maybe<kj::String> wished) {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  auto word = co_await readWord();
  auto found = (co_await slots.look()).state;
  auto finding = findingOf(record, running, found);
  if (finding == UpgradeFinding::kOnTrial) {
    if (record == nullptr) record = UpgradeRecord{.from = found.confirmed, .to = running};
    auto& r = KJ_ASSERT_NONNULL(record);
    bool first = r.stage != Stage::STARTED;
    // One that was told to have failed has left the boot loader its choice, and keeps the data.
    if (first && r.stage != Stage::WRITTEN) r.empty = false;
    r.stage = Stage::STARTED;
    if (r.toVersion.size() == 0) r.toVersion = kj::str(deps.version);
    publish();
    onTrial = true;
    if (first) deps.tell(kj::str("slot ", nameOf(running), " (", deps.version, ") is on trial"));
    tasks.add(trial());
    co_return co_await keep();
  }
  co_await settle();
  switch (finding) {
    case UpgradeFinding::kFellBack:
      co_await fellBack(running, kj::mv(word));
      break;
    case UpgradeFinding::kCutOff:
      co_await cutOff(wished);
      break;
    case UpgradeFinding::kConfirmed: {
      auto& r = KJ_ASSERT_NONNULL(record);
      r.stage = Stage::DONE;
      r.reason = kj::String();
      publish();
      co_await keep();
      break;
    }
    case UpgradeFinding::kWaiting:
      publish();
      KJ_IF_MAYBE (r, record) {
        if (r->isOver()) co_return co_await choose(running, nullptr);
      }
      // A brain that died between telling the boot loader and the reboot.
      if (deps.process1.brainRestarts() > 0) tasks.add(rebootInto());
      break;
    default:
      publish();
  }
}

// A machined that ends in the middle may do so each time; the power does not.
kj::Promise<void> Upgrader::cutOff(const kj::Maybe<kj::String>& wished) {
  KJ_IF_MAYBE (image, wished) {
    if (*image == KJ_ASSERT_NONNULL(record).image && deps.process1.brainRestarts() == 0) {
      record = nullptr;
      publish();
      return kj::READY_NOW;
    }
  }
  return failed(kj::str(
      "it was interrupted (a power cut, or a restart of machined) before the new system was "
      "ready to be tried"));
}

// A META that cannot be read has none.
kj::Promise<kj::Maybe<kj::String>> Upgrader::readWord() {
  kj::Maybe<kj::String> word;
  co_await kj::evalNow([&]() { return deps.readWord(); })
      .then([&](kj::Maybe<kj::String> left) { word = kj::mv(left); },
            [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  KJ_IF_MAYBE (text, word) {
    wordIsLeft = true;
    co_return oneLine(*text, kMostWord);
  }
  co_return nullptr;
}

// When the record has it. One of an earlier trial goes, too.
kj::Promise<void> Upgrader::dropWord() {
  if (!wordIsLeft) return kj::READY_NOW;
  return kj::evalNow([&]() { return deps.dropWord(); }).catch_([this](kj::Exception&& e) {
    taskFailed(kj::mv(e));
  });
}

// A disk that has taken the choice and not said so would start the other system at some later boot.
kj::Promise<void> Upgrader::revoke() {
  return choose(KJ_ASSERT_NONNULL(deps.running), nullptr).catch_([this](kj::Exception&& e) {
    deps.tell(kj::str("upgrade: the next start may be that of the other system, on trial: ",
                      messageOf(e)));
  });
}

kj::Promise<void> Upgrader::bootFailed(kj::String problems) {
  if (resumed || deps.trialLeft == nullptr) co_return;
  auto slot = nameOf(KJ_REQUIRE_NONNULL(deps.running));
  auto word = kj::str("its boot failed: ", problems);
  co_await within(
      deps.timer, kDiskPatience, deps.leaveWord(word),
      kj::str("META did not take the reason within ", kDiskPatience / kj::SECONDS, " s"))
      .catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  deps.tell(kj::str("giving up slot ", slot, " (", deps.version, "): ", word,
                    "; rebooting into the other slot"));
  co_await deps.reboot(kNotHealthy);
}

kj::Promise<void> Upgrader::fellBack(Slot running, kj::Maybe<kj::String> word) {
  if (record == nullptr) {
    record = UpgradeRecord{.from = running, .to = install::otherThan(running)};
  }
  auto& r = KJ_ASSERT_NONNULL(record);
  if (!r.isOver())
    co_await failed(whyFellBack(r, word.map([](kj::String& w) { return w.asPtr(); })));
  co_await choose(running, nullptr);
  publish();
}

kj::Promise<void> Upgrader::emptyEphemeralIfAsked() {
  KJ_IF_MAYBE (r, record) {
    if (!r->emptying && (!onTrial || !r->empty)) co_return;
    auto node = co_await slots.partition("EPHEMERAL");
    r->emptying = true;
    co_await keep();
    co_await deps.installer.clear(kj::str(node), kEmptyHead);
    r->empty = r->emptying = false;
    co_await keep();
    deps.tell(kj::str("EPHEMERAL: ", node, " was emptied, as the upgrade was without --preserve"));
  }
}

// --- what is asked for

Slot Upgrader::requireIdle() {
  if (deps.container) {
    fail(ErrorKind::kFailedPrecondition,
         "a node in a container runs the image of its host; upgrade the host, and create the node "
         "anew");
  }
  if (deps.running == nullptr || !resumed) {
    fail(ErrorKind::kFailedPrecondition,
         "this node was not started from its disk, so there is no slot to upgrade; start it with "
         "another image instead");
  }
  if (onTrial || (deps.trialLeft != nullptr && !settled)) {
    fail(
        ErrorKind::kFailedPrecondition,
        "the system that runs is itself on trial; wait until talosctl get upgradestatus says done");
  }
  if (fetching != nullptr || wanted != nullptr || rebooting) {
    fail(ErrorKind::kConflict, "an upgrade is under way; see talosctl get upgradestatus");
  }
  return KJ_ASSERT_NONNULL(deps.running);
}

kj::Promise<void> Upgrader::upgrade(UpgradeWish wish) {
  requireIdle();
  auto timeout = healthTimeout(wish.healthTimeoutS);
  if (wish.image.size() == 0) fail(ErrorKind::kInvalidArgument, "which image? use --image");
  kj::Maybe<ArchiveUrl> url;
  if (wish.file == nullptr) {
    url = archiveUrl(wish.image, wish.query);
  } else {
    wish.image = oneLine(wish.image, kMostName);  // whatever a client calls it
  }
  bool registry = wish.file == nullptr && url == nullptr;
  KJ_IF_MAYBE (u, url) wish.image = kj::str(u->place.shown);  // the rest may be secret
  fetching = kj::str(wish.image);
  KJ_DEFER({
    fetching = nullptr;
    fetched = kj::String();
    publish();
  });
  publish();
  auto key = deps.imageKey();
  co_await within(deps.timer, kReadyPatience, ready(registry),
                  kj::str("the node's boot is not over, or its containerd does not run; see "
                          "talosctl services"));
  auto next = registry ? pulled(kj::str(wish.image), kj::str(key))
                       : archived(wish, kj::mv(url), kj::str(key));
  auto got = co_await next;
  // The config can change in the minutes that this takes.
  if (deps.imageKey() != key) {
    fail(ErrorKind::kConflict,
         "machine.install.imageKey was changed while the image was fetched; nothing was written; "
         "repeat the upgrade");
  }
  wanted = kj::mv(got);
  auto& w = KJ_ASSERT_NONNULL(wanted);
  w.image = kj::mv(wish.image);
  w.preserve = wish.preserve;
  w.healthTimeoutS = timeout;
  tasks.add(carryOut());
}

kj::Promise<Upgrader::Wanted> Upgrader::pulled(kj::String image, kj::String key) {
  // A view that a power cut has left would keep what was unpacked then.
  co_await dropView(deps.containerd, kj::str(kViewName));
  co_await forgetImage(deps.containerd, kj::str(image));
  auto unpacked = co_await pullImage(deps.containerd, kj::mv(image));
  if (key.size() > 0) co_await deps.requireSignature(kj::str(unpacked.pinned), kj::mv(key));
  auto view = co_await viewImage(deps.containerd, kj::str(kViewName), kj::mv(unpacked.snapshot));
  Wanted next{};
  next.digest = kj::mv(unpacked.pinned);
  next.content = kj::mv(view);
  co_return kj::mv(next);
}

kj::Promise<Upgrader::Wanted> Upgrader::archived(UpgradeWish& wish, kj::Maybe<ArchiveUrl> url,
                                                 kj::String key) {
  kj::Maybe<ImageArchive> archive;
  kj::String prefix;
  KJ_IF_MAYBE (u, url) {
    prefix = kj::str(u->place.shown, "#");
    archive =
        co_await deps.archives.fetch(kj::mv(*u), kj::mv(key), KJ_BIND_METHOD(*this, progressed));
  } else KJ_IF_MAYBE (file, wish.file) {
    archive = co_await deps.archives.receive(kj::str(wish.image), kj::mv(*file), kj::mv(key),
                                             KJ_BIND_METHOD(*this, progressed));
  }
  auto& a = KJ_ASSERT_NONNULL(archive);
  Wanted next{};
  next.digest =
      prefix.size() > 0 ? kj::str(prefix, "sha256=", a.sha256) : kj::str("sha256:", a.sha256);
  next.content = kj::mv(a);
  co_return kj::mv(next);
}

// Who watches hears of each part in twenty.
void Upgrader::progressed(uint64_t done, uint64_t size) {
  auto text = size == 0 ? kj::str(done >> 24 << 4, " MiB")
                        : kj::str(done * 20 / size * 5, " % of ", size >> 20, " MiB");
  if (text == fetched) return;
  fetched = kj::mv(text);
  publish();
}

// One that is given an order while it comes up carries it out when it is up.
kj::Promise<void> Upgrader::ready(bool containerd) {
  while (!deps.booted()) co_await deps.timer.afterDelay(kLookAgain);
  if (containerd) co_await deps.containerd.serving();
}

kj::Promise<void> Upgrader::carryOut() {
  problem = kj::String();
  kj::Maybe<kj::Exception> wrong;
  co_await deps.runSequence().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  auto image = kj::mv(KJ_ASSERT_NONNULL(wanted).image);
  bool viewed = KJ_ASSERT_NONNULL(wanted).content.is<ImageView>();
  rebooting = wrong == nullptr;  // no other one begins from here to the reboot
  wanted = nullptr;
  // Of no use any more; what cannot be dropped now is replaced by the next one.
  if (viewed) {
    co_await dropView(deps.containerd, kj::str(kViewName)).catch_([](kj::Exception&&) {});
  }
  KJ_IF_MAYBE (e, wrong) {
    bool begun = false;
    KJ_IF_MAYBE (r, record) begun = !r->isOver() && r->image == image;
    if (begun && KJ_ASSERT_NONNULL(record).stage == Stage::WRITTEN) co_await revoke();
    if (!begun) record = newRecord(kj::mv(image));
    co_return co_await failed(problem.size() > 0 ? kj::mv(problem) : messageOf(*e));
  }
  co_await rebootInto();
}

// The sequence says in which task it failed; who asked does not need that.
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
  co_await keep();
  deps.tell(kj::str("upgrade: writing ", w.image, " to slot ", nameOf(r.to)));
  r.toVersion = co_await slots.write(r.to, w.content, deps.arguments());
  r.stage = Stage::WRITTEN;
  co_await keep();
  co_await choose(r.from, r.to);
}

UpgradeRecord Upgrader::newRecord(kj::String image) const {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  return UpgradeRecord{.image = kj::mv(image),
                       .from = running,
                       .to = install::otherThan(running),
                       .fromVersion = kj::str(deps.version),
                       .began = deps.clock.now()};
}

// Goes on without its caller: the boot loader may be told already.
kj::Promise<void> Upgrader::rollback(unsigned healthTimeoutS) {
  auto work = rollBack(healthTimeoutS).fork();
  tasks.add(work.addBranch().catch_([](kj::Exception&&) {}));  // told to the caller
  return work.addBranch();
}

kj::Promise<void> Upgrader::rollBack(unsigned healthTimeoutS) {
  auto running = requireIdle();
  auto timeout = healthTimeout(healthTimeoutS);
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
  record = kj::mv(next);
  awaited = nullptr;
  kj::Maybe<kj::Exception> wrong;
  co_await keep()
      .then([&]() { return choose(running, install::otherThan(running)); })
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    co_await revoke();
    co_await failed(messageOf(*e)).catch_([](kj::Exception&&) {});  // which is told
    kj::throwFatalException(kj::mv(*e));
  }
  accepted = true;
  tasks.add(rebootInto());
}

kj::Promise<void> Upgrader::rebootInto() {
  rebooting = true;
  KJ_IF_MAYBE (r, record) {
    deps.tell(kj::str(r->image.size() > 0 ? "upgrade" : "rollback", ": rebooting into slot ",
                      targetOf(*r)));
  }
  publish();
  return deps.reboot("reboot into the system of the other slot, asked for through the API");
}

// --- what an installation has left

kj::Maybe<const UpgradeRecord&> Upgrader::newest() const {
  KJ_IF_MAYBE (r, record) return *r;
  return nullptr;
}

bool Upgrader::isUnderWay() const {
  if (fetching != nullptr || wanted != nullptr || rebooting) return true;
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

// --- the trial

kj::Promise<void> Upgrader::trial() {
  auto& r = KJ_ASSERT_NONNULL(record);
  auto begin = deps.timer.now();
  auto patience = deps.trialLeft.orDefault(r.healthTimeoutS * kj::SECONDS);
  kj::Maybe<kj::TimePoint> healthySince;
  for (;;) {
    auto health = co_await deps.health().catch_([](kj::Exception&& e) {
      return Health{kj::str("its health cannot be told: ", messageOf(e))};
    });
    auto now = deps.timer.now();
    KJ_IF_MAYBE (lacks, health.lacks) {
      healthySince = nullptr;
      if (health.hopeless) co_return co_await giveUp(kj::mv(*lacks));
      if (r.reason != *lacks) {
        r.reason = kj::mv(*lacks);
        publish();
        co_await keepOrTell();
      }
    } else {
      if (healthySince == nullptr) healthySince = now;
      bool steady = now - KJ_ASSERT_NONNULL(healthySince) >= kHealthyFor;
      if (steady && co_await confirm()) co_return;
    }
    if (now - begin >= patience) {
      co_return co_await giveUp(
          kj::str("it was not healthy within ", r.healthTimeoutS, " s: ", r.reason));
    }
    co_await deps.timer.afterDelay(kLookAgain);
  }
}

// False: the disk does not take it; it may still.
kj::Promise<bool> Upgrader::confirm() {
  auto& r = KJ_ASSERT_NONNULL(record);
  bool good = true;
  co_await choose(r.to, nullptr).catch_([&](kj::Exception&& e) {
    good = false;
    r.reason = kj::str("cannot confirm it: ", messageOf(e));
    publish();
  });
  if (!good) co_return false;
  co_await settle();
  onTrial = false;
  r.stage = Stage::DONE;
  r.reason = kj::String();
  deps.tell(kj::str("slot ", targetOf(r), " is healthy and confirmed"));
  publish();
  co_await keepOrTell();
  co_return true;
}

kj::Promise<void> Upgrader::giveUp(kj::String reason) {
  auto& r = KJ_ASSERT_NONNULL(record);
  r.stage = Stage::GIVING_UP;
  r.reason = kj::mv(reason);
  deps.tell(kj::str("giving up slot ", targetOf(r), ": ", r.reason, "; rebooting into slot ",
                    nameOf(r.from)));
  publish();
  co_await keepOrTell();
  co_await deps.reboot(kNotHealthy);
}

}  // namespace talos::machined
