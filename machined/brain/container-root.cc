#include "machined/brain/container-root.h"

#include <capnp/message.h>
#include <kj/debug.h>
#include <kj/map.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/within.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/process1/init/init-protocol.h"
#include "machined/services/replaced-program.h"

namespace talos::machined {
namespace {

constexpr auto kLauncherTimeout = 30 * kj::SECONDS, kServiceTimeout = 2 * kj::MINUTES;
constexpr auto kLookMount = 100 * kj::MILLISECONDS, kLookService = 100 * kj::MILLISECONDS,
               kLookAgain = 1 * kj::SECONDS;
// Rounds in a row that find no service with old files: services are adopted one after the other.
constexpr unsigned kCleanRounds = 3;
// The time for which every service, and machined, must run without a failure (node-duties.h).
constexpr auto kSteadyBrain = 30 * kj::SECONDS;
// Process 1 gives the brain this time more to give up by itself.
constexpr unsigned kBrainFirst = 60;

int64_t msSinceKernelStart() {
  struct timespec now;
  KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &now));
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

kj::Maybe<kj::String> textOf(kj::Maybe<kj::AutoCloseFd> held) {
  KJ_IF_MAYBE (fd, held) {
    char text[kMostEntered];
    ssize_t n;
    KJ_SYSCALL(n = pread(*fd, text, sizeof text, 0));
    return kj::heapString(text, static_cast<size_t>(n));
  }
  return nullptr;
}

// Throws if the prepared system cannot take over.
void requireFit() {
  auto mounts = mountsOfRoot();
  auto differing = differingParts(fixedParts(true, mounts), fixedParts(false, mounts));
  for (auto& place : placesMissing(mounts)) differing.add(kj::str("the place for ", place));
  if (!differing.empty()) fail(ErrorKind::kFailedPrecondition, needsReboot(differing));
}

}  // namespace

ContainerRoot::ContainerRoot(BrainCore& core, Supervisor& supervisor)
    : core(core), supervisor(supervisor) {
  KJ_IF_MAYBE (text, textOf(core.process1.takeHeld(kEnteredName))) {
    running = enteredAt(decodeEntered(*text), deviceOf("/"));
  }
}

bool ContainerRoot::isFirstBrain() const {
  KJ_IF_MAYBE (system, running) return system->brains == core.process1.brainRestarts();
  return false;
}

kj::Maybe<kj::Duration> ContainerRoot::trialLeft() const {
  KJ_IF_MAYBE (system, running) {
    if (system->trialEnds == 0) return nullptr;
    auto left = (system->trialEnds - msSinceKernelStart()) * kj::MILLISECONDS;
    return kj::max(left, 0 * kj::SECONDS);
  }
  return nullptr;
}

// --- the root

kj::Promise<void> ContainerRoot::requireStated(kj::String configKeys) {
  return core.uv.blocking([configKeys = kj::mv(configKeys)]() {
    auto differing = partsStatedOtherwise(fixedParts(true, nullptr), configKeys);
    if (differing.empty()) return;
    fail(ErrorKind::kFailedPrecondition, kj::str(needsReboot(differing), "; nothing was written"));
  });
}

kj::Promise<void> ContainerRoot::prepare(install::Slot slot) {
  kj::Maybe<kj::Exception> problem;
  co_await core.uv.blocking([]() { preparePlace(); })
      .then([this, slot]() { return mountSlot(slot); })
      .then([this]() { return core.uv.blocking([]() { requireFit(); }); })
      .catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  KJ_IF_MAYBE (e, problem) {
    co_await abandon();
    kj::throwFatalException(kj::mv(*e));
  }
}

kj::Promise<void> ContainerRoot::mountSlot(install::Slot slot) {
  auto request = kj::str(install::kSlotsPath, "/", install::kMountRequest);
  auto refusal = kj::str(install::kSlotsPath, "/", install::kMountRefusal);
  co_await core.uv.blocking([request = kj::str(request), refusal = kj::str(refusal), slot]() {
    unlink(refusal.cStr());
    writeFileAtomically(request, kj::str(install::nameOf(slot), "\n"), 0600);
  });
  for (auto end = core.timer.now() + kLauncherTimeout;;) {
    if (isMountPoint(kNewRoot)) co_return;
    KJ_IF_MAYBE (reason, tryReadFile(refusal, 4096)) {
      fail(ErrorKind::kFailedPrecondition, kj::str("the launcher of this container: ", *reason));
    }
    if (core.timer.now() >= end) break;
    co_await core.timer.afterDelay(kLookMount);
  }
  co_await core.uv.blocking([request = kj::mv(request)]() { unlink(request.cStr()); });
  fail(
      ErrorKind::kFailedPrecondition,
      kj::str("the launcher of this container has not mounted the system within ",
              kLauncherTimeout / kj::SECONDS, " s; restart the cluster with talosctl cluster stop ",
              "and start, of this version"));
}

kj::Promise<void> ContainerRoot::hold(kj::StringPtr name, kj::ArrayPtr<const kj::byte> bytes) {
  int raw;
  KJ_SYSCALL(raw = memfd_create("held", MFD_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  KJ_ASSERT(write(fd, bytes.begin(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  co_await core.process1.hold(name, fd);
}

// If the running system stays, process 1 must not end a trial that has not begun.
kj::Promise<void> ContainerRoot::enter(install::Slot slot, kj::Maybe<unsigned> trialS) {
  kj::Vector<EnteredSystem> systems;
  KJ_IF_MAYBE (system, running) systems.add(*system);
  auto& next = systems.add(EnteredSystem{slot, deviceOf(kNewRoot)});
  next.brains = core.process1.brainRestarts() + 1;
  KJ_IF_MAYBE (seconds, trialS) next.trialEnds = msSinceKernelStart() + int64_t{*seconds} * 1000;
  co_await hold(kEnteredName, encodeEntered(systems).asBytes());
  kj::Maybe<kj::Exception> problem;
  kj::Promise<void> limit = kj::READY_NOW;
  KJ_IF_MAYBE (seconds, trialS) {
    uint32_t ticks = *seconds + kBrainFirst;
    limit = hold(process1::kTrialLimit, kj::arrayPtr(&ticks, 1).asBytes());
  }
  co_await limit.then([this]() { return core.uv.blocking([]() { enterNewRoot(mountsOfRoot()); }); })
      .catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  KJ_IF_MAYBE (e, problem) {
    if (trialS != nullptr) co_await hold(process1::kSettled, nullptr);
    kj::throwFatalException(kj::mv(*e));
  }
  // Nothing is lost: process 1 starts the brain of the new system, as after a crash.
  core.console.say("machined: the new system takes over", Tone::kInfo);
  _exit(0);
}

kj::Promise<void> ContainerRoot::abandon() {
  return core.uv.blocking([]() { clearPlace(); }).catch_([this](kj::Exception&& e) {
    core.console.say(kj::str("upgrade: ", messageOf(e)), Tone::kAlarm);
  });
}

// --- services

int ContainerRoot::pidOf(kj::StringPtr id) const {
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  supervisor.fill(id, service);
  return service.getPid();
}

kj::Promise<kj::Vector<kj::String>> ContainerRoot::servicesWithOldFiles() {
  kj::Vector<kj::String> found;
  auto ids = supervisor.ids();
  for (auto& id : ids) {
    int pid = pidOf(id);
    if (pid <= 0 || pid == getpid()) continue;
    if (debugOrder(id).program != nullptr) continue;  // a developer's, of no image
    if (co_await core.uv.blocking([pid]() { return runsOldFiles(pid); })) found.add(kj::mv(id));
  }
  sortReplacements(found);
  co_return kj::mv(found);
}

kj::Promise<void> ContainerRoot::replaceServices() {
  left = kj::str("it is looking for services of the old system");
  kj::Maybe<kj::Exception> problem;
  co_await replaceAll().catch_([&](kj::Exception&& e) { problem = kj::mv(e); });
  KJ_IF_MAYBE (e, problem) {
    left = messageOf(*e);
    kj::throwFatalException(kj::mv(*e));
  }
  hasReplaced = true;
}

// A service that does not come up keeps no other from its turn.
kj::Promise<void> ContainerRoot::replaceAll() {
  kj::TreeSet<kj::String> replaced;
  for (unsigned clean = 0; clean < kCleanRounds;) {
    auto old = co_await servicesWithOldFiles();
    clean = old.empty() ? clean + 1 : 0;
    for (auto i : kj::indices(old)) {
      auto& id = old[i];
      auto rest = old.slice(i, old.size());
      left = kj::str("services of the old system are not replaced yet: ", kj::strArray(rest, ", "));
      if (replaced.find(id) != nullptr) {
        fail(ErrorKind::kInternal, kj::str("service ", id, " was replaced, and runs old files"));
      }
      co_await replaceService(id);
      replaced.insert(kj::mv(id));
    }
    co_await core.timer.afterDelay(kLookAgain);
  }
  kj::Vector<kj::String> down;
  for (auto& id : replaced) {
    if (!supervisor.isUp(id)) down.add(kj::str(id));
  }
  if (!down.empty()) {
    fail(ErrorKind::kUnavailable,
         kj::str("services of the new system that are not up within ",
                 kServiceTimeout / kj::SECONDS, " s: ", kj::strArray(down, ", ")));
  }
}

// Returns once the service is up, or the time for that is over.
kj::Promise<void> ContainerRoot::replaceService(kj::StringPtr id) {
  int before = pidOf(id);
  co_await supervisor.restart(id);
  for (auto end = core.timer.now() + kServiceTimeout; core.timer.now() < end;) {
    int pid = pidOf(id);
    if (pid > 0 && pid != before && supervisor.isUp(id)) co_return;
    co_await core.timer.afterDelay(kLookService);
  }
}

kj::Maybe<kj::String> ContainerRoot::unreplaced() {
  if (running == nullptr) return nullptr;
  if (!hasReplaced) return kj::str(left);
  // A later brain counts as a failure of the service machined, for as long.
  bool isTooNew = isFirstBrain() && core.timer.now() - brainStarted < kSteadyBrain;
  if (!isTooNew) return nullptr;
  return kj::str("its machined has not yet run for ", kSteadyBrain / kj::SECONDS, " s");
}

}  // namespace talos::machined
