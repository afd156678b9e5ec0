#include "machined/disk/volumes/file-system-trim.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/text/size.h"
#include "common/text/texts.h"
#include "machined/disk/volumes/mount-table.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

// How often the times are looked at.
constexpr auto kTrimLook = 1 * kj::MINUTES;

// FNV-1a, as Talos spreads the times of its nodes.
uint64_t spread(kj::ArrayPtr<const char> text, uint64_t hash = 0xcbf29ce484222325u) {
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool nodeIsRunning(Store& store) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::MachineStatusSpec>("machine")) {
    return status->getStage() == "running";
  }
  return false;
}

}  // namespace

kj::Vector<TrimInterval> trimIntervals(config::Machine::Reader machine) {
  kj::Vector<TrimInterval> all;
  for (auto rule : machine.getTrims())
    all.add(TrimInterval{kj::str(rule.getMountpoint()), rule.getSeconds()});
  return all;
}

uint64_t trimIntervalOf(kj::ArrayPtr<const TrimInterval> all, kj::StringPtr mountpoint) {
  uint64_t ofAll = 0;
  for (auto& one : all) {
    if (one.mountpoint == mountpoint) return one.seconds;
    if (one.mountpoint.size() == 0) ofAll = one.seconds;
  }
  return ofAll;
}

uint64_t trimTime(uint64_t now, uint64_t interval, kj::StringPtr node, kj::StringPtr mountpoint) {
  auto offset = spread(mountpoint, spread("/"_kj, spread(node))) % interval;
  return (now + interval - offset) / interval;
}

TrimmedPart trimPart(kj::StringPtr mountpoint, uint64_t offset) {
  int raw = open(mountpoint.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (raw < 0) fail(ErrorKind::kUnavailable, strerror(errno));
  kj::AutoCloseFd folder(raw);
  struct statfs found;
  KJ_SYSCALL(fstatfs(folder, &found), mountpoint);
  auto size = uint64_t(found.f_blocks) * uint64_t(found.f_bsize);
  TrimmedPart part;
  part.last = offset + kTrimPart >= size;
  // A file system is larger than it says, by its log.
  struct fstrim_range range = {offset, part.last ? ~uint64_t{0} : kTrimPart, 0};
  if (ioctl(folder, FITRIM, &range) == 0) {
    part.bytes = range.len;
    return part;
  }
  part.last = true;
  part.supported = errno != EOPNOTSUPP && errno != ENOTTY;
  if (part.supported) fail(ErrorKind::kUnavailable, strerror(errno));
  return part;
}

FilesystemTrimController::FilesystemTrimController(Dependencies deps)
    : WokenController(deps.timer, 0 * kj::SECONDS,
                      [&timer = deps.timer]() { return timer.afterDelay(kTrimLook); }),
      deps(kj::mv(deps)) {}

kj::Array<Controller::Input> FilesystemTrimController::inputs() const {
  return kj::arr(input<rpc::MachineStatusSpec>("machine"),
                 input<rpc::MachineConfigSpec>("v1alpha1"));
}

kj::Promise<void> FilesystemTrimController::reconcile(Store& store) {
  if (!nodeIsRunning(store) || busy) co_return;
  auto intervals = deps.intervals(store);
  if (intervals.empty()) {
    last.clear();
    unsupported.clear();
    co_return;
  }
  auto now = static_cast<uint64_t>((deps.clock.now() - kj::UNIX_EPOCH) / kj::SECONDS);
  auto text = co_await deps.mounts();
  kj::Vector<kj::String> due;
  for (auto& mount : deviceMounts(text)) {
    auto interval = trimIntervalOf(intervals, mount.target);
    if (interval == 0 || contains(mount.options, "ro") || !isTarget(mount.target)) continue;
    Time time{interval, trimTime(now, interval, deps.node, mount.target)};
    auto [before, fresh] = last.emplace(mount.target.cStr(), time);
    bool passed =
        !fresh && before->second.interval == interval && before->second.number < time.number;
    before->second = time;
    if (passed) due.add(kj::mv(mount.target));
  }
  if (due.empty()) co_return;
  busy = true;
  work = trimAll(kj::mv(due))
             .catch_([this](kj::Exception&& e) { deps.say(messageOf(e)); })
             .then([this]() { busy = false; })
             .eagerlyEvaluate(nullptr);
}

bool FilesystemTrimController::isTarget(kj::StringPtr mountpoint) {
  return contains(deps.targets(), mountpoint);
}

kj::Promise<void> FilesystemTrimController::trimAll(kj::Vector<kj::String> mountpoints) {
  for (auto& mountpoint : mountpoints) {
    kj::Maybe<kj::String> problem;
    try {
      co_await trimOne(mountpoint);
    } catch (...) {
      problem =
          kj::str(mountpoint, ": cannot be trimmed: ", messageOf(kj::getCaughtExceptionAsKj()));
    }
    setProblem(mountpoint, kj::mv(problem));
  }
}

kj::Promise<void> FilesystemTrimController::trimOne(kj::StringPtr mountpoint) {
  uint64_t bytes = 0;
  for (uint64_t offset = 0;; offset += kTrimPart) {
    if (!isTarget(mountpoint)) co_return;  // it is unmounted, or soon will be
    auto part = co_await deps.trim(kj::str(mountpoint), offset);
    if (!part.supported) {
      if (unsupported.emplace(mountpoint.cStr(), true).second)
        deps.say(
            kj::str(mountpoint, ": not trimmed, because its disk cannot be told of unused blocks"));
      co_return;
    }
    bytes += part.bytes;
    if (part.last) break;
  }
  deps.say(kj::str(mountpoint, ": trimmed; the disk was told of ", decimalSize(bytes),
                   " of unused blocks"));
}

void FilesystemTrimController::setProblem(kj::StringPtr mountpoint, kj::Maybe<kj::String> problem) {
  KJ_IF_MAYBE (text, problem) {
    problems[mountpoint.cStr()] = text->cStr();
  } else if (problems.erase(mountpoint.cStr()) == 0) {
    return;
  }
  kj::Vector<kj::String> all;
  for (auto& [_, text] : problems) all.add(kj::str(text.c_str()));
  deps.changed(kj::mv(all));
}

}  // namespace talos::machined
