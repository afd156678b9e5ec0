#include "tests/tier/machine.h"

#include "machined/process1/init/init-protocol.h"
#include "tests/tier/brain.h"
#include "tests/tier/tier.h"

namespace talos::tier {
namespace {

constexpr auto kStart = 4 * kj::SECONDS, kPanic = 10 * kj::SECONDS, kStop = 2 * kj::SECONDS,
               kRestart = 1 * kj::SECONDS, kGrace = 60 * kj::SECONDS;

}  // namespace

kj::String versionOf(unsigned image) {
  return image == 0 ? kj::String() : kj::str("v", image);
}

Machine::Machine(Tier& tier, unsigned index, kj::Maybe<supervisor::Node&> member)
    : tier(tier), index(index), address(kj::str("10.0.0.", index + 1)), member(member) {}

Machine::~Machine() noexcept(false) = default;

void Machine::taskFailed(kj::Exception&& e) {
  tier.never(kj::str("work of node ", index + 1, " failed: ", e));
}

void Machine::add(kj::Promise<void> promise) {
  KJ_ASSERT_NONNULL(work)->add(kj::mv(promise));
}

void Machine::later(kj::Duration after, kj::Function<void()> what) {
  if (work == nullptr) return;
  add(tier.bed.timer.afterDelay(after).then(kj::mv(what)));
}

Sickness Machine::sicknessOf(unsigned image) const {
  auto sickness = tier.schedule.sicknessOf(image, index);
  bool harmless = (sickness == Sickness::kNoEtcd && member == nullptr) || image == cured;
  return harmless ? Sickness::kHealthy : sickness;
}

// --- power

void Machine::powerOn() {
  if (on) return;
  on = true;
  ++boots;
  isRebooting = false;
  store = &tier.stores.empty(index);
  process1 = kj::heap<machined::FakeMachine>();
  work = kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this));
  add(live());
}

void Machine::powerOff() {
  if (!on) return;
  on = false;
  brain = nullptr;
  work = nullptr;
  disk.lose();
  KJ_IF_MAYBE (node, member) tier.bed.powerOff(*node);
}

void Machine::crashMachined() {
  if (!on || brain.get() == nullptr) return;
  brain = nullptr;
  add(tier.bed.delay(kRestart).then([this]() { brain = kj::heap<Brain>(*this); }));
}

void Machine::reboot(Reboot cause) {
  if (isRebooting) return;
  isRebooting = true;
  add(tier.bed.delay(kStop).then([this, cause]() {
    tier.soon([this, cause, boot = boots]() {
      if (!on || boots != boot) return;
      disk.flush();
      if (cause != Reboot::kUpgrades) tier.judges.noteFault(tier.bed.timer.now());
      if (cause != Reboot::kOther) tier.judges.judgeGoing(*this, cause == Reboot::kGivesUp);
      tier.note(*this, cause == Reboot::kUpgrades ? "reboots into the other system" : "reboots");
      powerOff();
      powerOn();
    });
  }));
}

Machine::ArmedCut Machine::takeArmedCut() {
  auto cut = armedCut;
  armedCut = ArmedCut::kNone;
  return cut;
}

kj::Promise<void> Machine::cutNow() {
  tier.probe(Probe::kCutAtWrite);
  tier.soon([this]() { tier.cutPower(*this, 3'000); });
  return kj::NEVER_DONE;
}

void Machine::loseEphemeral() {
  KJ_IF_MAYBE (node, member) node->disk = supervisor::Disk();
}

// --- a boot

kj::Promise<void> Machine::live() {
  auto& bed = tier.bed;
  co_await bed.delay(kStart);
  running = disk.start();
  isOnTrial = disk.environment.confirmed != running;
  if (takeArmedCut() != ArmedCut::kNone) co_await cutNow();  // the count of the try
  co_await bed.delay(kStart);
  tier.judges.judgeStart(*this);
  tier.note(*this, kj::str("starts slot ", install::nameOf(running), ", image ", image(),
                           isOnTrial ? ", on trial" : ""));
  if (image() == 0) co_return;
  if (sickness() == Sickness::kNoKernel) {
    co_await bed.timer.afterDelay(kPanic);
    reboot(Reboot::kOther);
    co_return;
  }
  if (isOnTrial && !tier.mistakes.process1HasNoDeadline) {
    add(endTrial(disk.environment.healthTimeoutS));
  }
  if (sickness() == Sickness::kHangs) co_return;
  brain = kj::heap<Brain>(*this);
  if (sickness() == Sickness::kCrashLoops) add(crashAgainAndAgain());
}

// Process 1 reboots a little after the trial's time.
kj::Promise<void> Machine::endTrial(unsigned seconds) {
  co_await tier.bed.timer.afterDelay(seconds * kj::SECONDS + kGrace);
  if (process1->holds(process1::kSettled)) co_return;
  tier.probe(Probe::kProcess1Ended);
  reboot(Reboot::kOther);
}

// A system that was confirmed all the same, because machined had crashed before, lives.
kj::Promise<void> Machine::crashAgainAndAgain() {
  for (;;) {
    co_await tier.bed.timer.afterDelay(1 * kj::SECONDS);
    co_await tier.bed.delay(3 * kj::SECONDS);
    if (disk.environment.confirmed == running) co_return;
    tier.soon([this, boot = boots]() {
      if (boots == boot) crashMachined();
    });
  }
}

void Machine::beginServices() {
  KJ_IF_MAYBE (node, member) {
    node->freeBytes = sickness() == Sickness::kNoEtcd ? 0 : 1 << 30;
    if (!node->on) tier.bed.powerOn(*node);
  }
}

}  // namespace talos::tier
