#include "machined/storage/file-system-watch.h"

#include <dirent.h>
#include <errno.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/within.h"
#include "machined/storage/ephemeral-volume.h"
#include "machined/storage/mount-table.h"
#include "machined/storage/state-volume.h"

namespace talos::machined {
namespace {

constexpr auto kLookPace = 10 * kj::SECONDS, kAnswerPatience = 35 * kj::SECONDS;
constexpr kj::StringPtr kMountsFile = "/proc/self/mountinfo"_kj;
// Of the pool: no client of the API.
constexpr uint64_t kPoolClient = UINT64_MAX;

// What an administrator knows it by.
kj::StringPtr shownName(kj::StringPtr target) {
  if (target == kStatePath) return kStateName;
  return target == kVarPath ? kEphemeralName : target;
}

// A read-only one has nothing that could be lost.
bool isWritten(const DeviceMount& mount) {
  return mount.source.startsWith("/dev/") && mount.type != "squashfs" && mount.type != "iso9660";
}

kj::String failureOf(const DeviceMount& mount, const kj::Exception& e) {
  return kj::str(shownName(mount.target), ": the file system of ", mount.source,
                 " does not work any more: ", messageOf(e),
                 "; see talosctl dmesg, then reboot, or replace the disk");
}

bool sameTexts(kj::ArrayPtr<const kj::String> a, kj::ArrayPtr<const kj::String> b) {
  if (a.size() != b.size()) return false;
  for (auto i : kj::indices(a)) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// One that was shut down has nothing to read.
void readFirstEntry(kj::StringPtr folder) {
  DIR* open = opendir(folder.cStr());
  if (open == nullptr) fail(ErrorKind::kUnavailable, strerror(errno));
  KJ_DEFER(closedir(open));
  errno = 0;
  if (readdir(open) == nullptr && errno != 0) fail(ErrorKind::kUnavailable, strerror(errno));
}

}  // namespace

kj::Promise<void> FileSystemWatch::watch() {
  for (;;) {
    co_await deps.timer.afterDelay(kLookPace);
    kj::Maybe<kj::Vector<kj::String>> looked;
    // Of what cannot be looked at nothing new is known.
    co_await look().then([&](kj::Vector<kj::String> wrong) { looked = kj::mv(wrong); },
                         [](kj::Exception&&) {});
    KJ_IF_MAYBE (now, looked) {
      if (sameTexts(*now, found)) continue;
      found = kj::mv(*now);
      deps.changed();
    }
  }
}

kj::Promise<kj::Vector<kj::String>> FileSystemWatch::look() {
  kj::Vector<kj::String> wrong;
  auto text = co_await deps.mounts();
  for (auto& mount : deviceMounts(text)) {
    if (!isWritten(mount)) continue;
    co_await within(deps.timer, kAnswerPatience, deps.readFolder(kj::str(mount.target)),
                    kj::str("it did not answer within ", kAnswerPatience / kj::SECONDS, " s"))
        .catch_([&](kj::Exception&& e) { wrong.add(failureOf(mount, e)); });
  }
  co_return kj::mv(wrong);
}

FileSystemWatch::Dependencies fileSystemsOfDisks(kj::Timer& timer, ReadPool& pool,
                                                 kj::Function<void()> changed) {
  return {timer,
          [&pool]() {
            return pool.run(
                "reading the mounts", []() { return readFile(kMountsFile); }, kPoolClient);
          },
          [&pool](kj::String target) {
            return pool.run(
                "looking at a file system", [target = kj::mv(target)]() { readFirstEntry(target); },
                kPoolClient);
          },
          kj::mv(changed)};
}

}  // namespace talos::machined
