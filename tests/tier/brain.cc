#include "tests/tier/brain.h"

#include <stdlib.h>

#include "common/base/within.h"
#include "tests/tier/supervisor-socket.h"
#include "tests/tier/tier.h"

namespace talos::tier {
namespace {

using machined::Duty;
using machined::DutyFacts;
using machined::Health;

constexpr auto kSmallWrite = 30 * kj::MILLISECONDS, kPhase = 2 * kj::SECONDS,
               kDownload = 3 * kj::SECONDS, kEtcdTimeout = 10 * kj::SECONDS;
constexpr kj::StringPtr kSite = "https://h.example/i.tar#sha256="_kj;
constexpr size_t kDigits = 64;

kj::String digestDigits(unsigned image) {
  auto digits = kj::heapString(kDigits);
  for (auto& digit : digits) digit = '0';
  digits[kDigits - 1] = char('0' + image);
  return digits;
}

kj::Maybe<kj::Duration> trialLeft(Machine& machine) {
  if (!machine.isOnTrial) return nullptr;
  return machine.disk.environment.healthTimeoutS * kj::SECONDS;
}

}  // namespace

kj::String imageName(unsigned image) {
  return kj::str(kSite, digestDigits(image));
}

unsigned imageNamed(kj::StringPtr digest) {
  if (digest.size() != kSite.size() + kDigits) return 0;
  return unsigned(digest[digest.size() - 1] - '0');
}

Brain::Brain(Machine& machine)
    : store(*machine.store),
      machine(machine),
      tier(machine.tier),
      process1(*machine.process1),
      started(tier.bed.timer.now()),
      departure({.timer = tier.bed.timer,
                 .runsEtcd = [&machine]() { return machine.member != nullptr; },
                 .supervisor = supervisorSocket(machine),
                 .print = [](kj::StringPtr) {}}),
      upgrader_(kj::heap<machined::Upgrader>(dependencies())) {
  booting = boot().eagerlyEvaluate([this](kj::Exception&& e) {
    tier.never(kj::str("the boot of node ", this->machine.index + 1, " throws: ", e));
  });
}

Brain::~Brain() noexcept(false) {
  canceler.cancel(error(ErrorKind::kUnavailable, "machined has exited"));
}

machined::Upgrader::Dependencies Brain::dependencies() {
  return {.timer = tier.bed.timer,
          .clock = tier,
          .process1 = process1,
          .store = store,
          .containerd = tier.containerd,
          .installer = machine.disk,
          .archives = *this,
          .volumes = machine.disk,
          .running = machine.running,
          .version = versionOf(machine.image()),
          .trialLeft = trialLeft(machine),
          .node = *this,
          .records = *this,
          .clusters = *this,
          .configOnTrial = []() -> kj::Maybe<kj::String> { return nullptr; }};
}

// The sequence "boot", as far as upgrades take part in it. A brain that replaces another one in the
// same boot finds the services running.
kj::Promise<void> Brain::boot() {
  bool isFirst = process1.brainRestarts() == 0;
  co_await tier.bed.delay(kPhase);
  if (isFirst && machine.sickness() == Sickness::kBootFails) {
    stage = "failed"_kj;
    isListening = true;
    co_return co_await upgrader().bootFailed(kj::str("STATE cannot be mounted"));
  }
  tier.judges.observeStart(machine);
  co_await upgrader().resume();
  bool wiped = true;
  co_await upgrader().emptyEphemeralIfAsked().catch_([&](kj::Exception&&) { wiped = false; });
  isListening = true;
  if (!wiped) {
    stage = "failed"_kj;
    co_return;
  }
  machine.beginServices();
  co_await tier.bed.delay(kPhase);
  if (!isGoing) stage = "running"_kj;
}

// --- the node

kj::Promise<Health> Brain::health() {
  Health found;
  if (tier.mistakes.confirmsAnything) return kj::mv(found);
  found.hopeless = stage == "failed";
  if (stage != "running") found.lacks = kj::str("it is ", stage);
  if (machine.sickness() == Sickness::kUnhealthy) found.lacks = kj::str("apid is not up");
  KJ_IF_MAYBE (node, machine.member) {
    bool runs = node->process.get() != nullptr && !node->process->dead;
    if (!runs) found.lacks = kj::str("service etcd-supervisor is not up");
  }
  return kj::mv(found);
}

kj::Promise<kj::Maybe<DutyFacts::Etcd>> Brain::etcdFacts() {
  using machined::etcdFactsOf;
  auto outlook =
      co_await within(tier.bed.timer, kEtcdTimeout, departure.outlook(rpc::DepartureKind::RESTARTS),
                      kj::str("etcd-supervisor did not answer"));
  KJ_IF_MAYBE (found, outlook) {
    auto facts = etcdFactsOf(found->getMembers());
    facts.othersReached = facts.othersReached || tier.reachesAnother(machine);
    co_return kj::mv(facts);
  }
  co_return nullptr;
}

kj::Promise<kj::Vector<Duty>> Brain::duties() {
  DutyFacts facts;
  auto now = tier.bed.timer.now();
  DutyFacts::Service self{.id = kj::str("machined"), .up = true};
  if (process1.brainRestarts() > 0) self.failedAgo = now - started;
  facts.services.add(kj::mv(self));
  KJ_IF_MAYBE (node, machine.member) {
    facts.services.add(DutyFacts::Service{.id = kj::str("etcd"), .up = node->running});
  }
  facts.etcd = co_await etcdFacts().catch_([](kj::Exception&& e) -> kj::Maybe<DutyFacts::Etcd> {
    DutyFacts::Etcd etcd;
    etcd.member = true;
    etcd.problems.add(messageOf(e));
    return kj::mv(etcd);
  });
  facts.network.emplace();
  co_return machined::dutiesOf(store, facts);
}

kj::Promise<void> Brain::runSequence(kj::Function<kj::Promise<void>()> write) {
  if (isGoing) return error(ErrorKind::kConflict, "the node is rebooting");
  return write().attach(kj::mv(write));
}

kj::Promise<void> Brain::reboot(kj::StringPtr reason) {
  isGoing = true;
  stage = "rebooting"_kj;
  bool givesUp = reason.startsWith("the system on trial");
  machine.reboot(givesUp ? Machine::Reboot::kGivesUp : Machine::Reboot::kUpgrades);
  return kj::READY_NOW;
}

kj::Promise<void> Brain::rebootByOperator() {
  if (isGoing) co_return;
  isGoing = true;
  stage = "rebooting"_kj;
  co_await upgrader().tryStaged();
  machine.reboot(Machine::Reboot::kOther);
}

void Brain::announce(kj::StringPtr line) {
  tier.note(machine, line);
}

// --- the disk

kj::Promise<kj::Maybe<machined::UpgradeRecord>> Brain::load() {
  KJ_IF_MAYBE (r, machine.disk.record) {
    return machined::decodeRecord(machined::encodeRecord(*r));
  }
  return kj::Maybe<machined::UpgradeRecord>();
}

kj::Promise<void> Brain::save(const machined::UpgradeRecord& record) {
  auto bytes = machined::encodeRecord(record);
  return machine.disk.write(kSmallWrite, [this, bytes = kj::mv(bytes)]() {
    machine.disk.record = machined::decodeRecord(bytes);
  });
}

kj::Promise<void> Brain::saveDuties(const machined::DutyRecord& duties) {
  auto bytes = machined::encodeDuties(duties);
  return machine.disk.write(kSmallWrite, [this, bytes = kj::mv(bytes)]() {
    machine.disk.duties = machined::decodeDuties(bytes);
  });
}

kj::Promise<kj::Maybe<machined::DutyRecord>> Brain::loadDuties() {
  if (tier.mistakes.confirmsAnything) return kj::Maybe<machined::DutyRecord>();
  KJ_IF_MAYBE (kept, machine.disk.duties) {
    return machined::decodeDuties(machined::encodeDuties(*kept));
  }
  return kj::Maybe<machined::DutyRecord>();
}

kj::Promise<void> Brain::writeTrialFailure(kj::StringPtr reason) {
  return machine.disk.write(
      kSmallWrite, [this, text = kj::str(reason)]() { machine.disk.trialFailure = kj::str(text); });
}

kj::Promise<kj::Maybe<kj::String>> Brain::readTrialFailure() {
  return machine.disk.trialFailure.map([](kj::String& text) { return kj::str(text); });
}

kj::Promise<void> Brain::clearTrialFailure() {
  return machine.disk.write(kSmallWrite, [this]() { machine.disk.trialFailure = nullptr; });
}

kj::Promise<kj::Maybe<kj::String>> Brain::readVersionFloor() {
  return machine.disk.floor.map([](kj::String& text) { return kj::str(text); });
}

kj::Promise<void> Brain::writeVersionFloor(kj::StringPtr version) {
  return machine.disk.write(
      kSmallWrite, [this, text = kj::str(version)]() { machine.disk.floor = kj::str(text); });
}

// --- the clusters

kj::Promise<void> Brain::requireSpare(bool preserve) {
  if (tier.mistakes.takesNoTurn) return kj::READY_NOW;
  auto going = preserve ? rpc::DepartureKind::RESTARTS : rpc::DepartureKind::REJOINS;
  return departure.require(going, ErrorKind::kUnavailable, "or use --force").ignoreResult();
}

kj::Promise<void> Brain::leave(bool preserve, bool force) {
  if (tier.mistakes.takesNoTurn && preserve) co_return;
  if (tier.mistakes.asksOnce && preserve && hasDrained) co_return;
  if (tier.mistakes.givesUpAtOnce && machine.isOnTrial) co_return;
  auto going = preserve ? rpc::DepartureKind::RESTARTS : rpc::DepartureKind::REJOINS;
  auto began = tier.bed.timer.now();
  kj::Maybe<kj::Exception> refusal;
  co_await departure.leave(going, force, ErrorKind::kUnavailable, "or use --force")
      .catch_([&](kj::Exception&& e) { refusal = kj::mv(e); });
  auto took = tier.bed.timer.now() - began;
  KJ_IF_MAYBE (e, refusal) {
    tier.probe(Probe::kTurnRefused);
    kj::throwFatalException(kj::mv(*e));
  }
  if (machine.member == nullptr) co_return;
  if (!preserve) {
    machine.hasLeft = true;
    tier.judges.judgeLeft(machine);
    co_return;
  }
  machine.turnTaken = tier.bed.timer.now();
  if (took > 3 * kj::SECONDS) tier.probe(Probe::kTurnWaited);
}

kj::Promise<void> Brain::drain() {
  hasDrained = true;
  return tier.bed.delay(tier.schedule.drainMs * kj::MILLISECONDS);
}

// --- images

kj::Promise<machined::ImageArchive> Brain::fetch(machined::ArchiveUrl url, kj::String,
                                                 Progress progress) {
  auto image = imageNamed(kj::str(kSite, url.sha256));
  progress(30 << 20, 100 << 20);
  co_await tier.bed.delay(kDownload);
  if (machine.sicknessOf(image) == Sickness::kUnfetchable) {
    fail(ErrorKind::kUnavailable, "h.example: Connection refused");
  }
  machined::ImageArchive archive{{}, {}, digestDigits(image)};
  archive.parts.add(machined::ImagePart{kj::str("vmlinuz"), 512, image});
  co_return kj::mv(archive);
}

kj::Promise<machined::ImageArchive> Brain::receive(kj::String, machined::ClientFile, kj::String,
                                                   Progress) {
  return error(ErrorKind::kUnimplemented, "the model sends no files");
}

}  // namespace talos::tier
