#include "machined/disk/volumes/file-system-health.h"

#include <dirent.h>
#include <errno.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/file.h"
#include "common/text/texts.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/state-volume.h"

namespace talos::machined {
namespace {

// A disk that retries takes some seconds. The sum of all is less than a minute.
constexpr auto kLookPace = 10 * kj::SECONDS, kFirstAnswer = 1 * kj::SECONDS,
               kAnswerTimeout = 35 * kj::SECONDS;
constexpr kj::StringPtr kMountsFile = "/proc/self/mountinfo"_kj;

// Returns the name that administrators use.
kj::StringPtr shownName(kj::StringPtr target) {
  if (target == kStatePath) return kStateName;
  return target == kVarPath ? kEphemeralName : target;
}

// A read-only file system cannot lose data.
bool isWritten(const DeviceMount& mount) {
  return mount.source.startsWith("/dev/") && mount.type != "squashfs" && mount.type != "iso9660";
}

bool sameTexts(kj::ArrayPtr<const kj::String> a, kj::ArrayPtr<const kj::String> b) {
  if (a.size() != b.size()) return false;
  for (auto i : kj::indices(a)) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Returns the error of reading the folder, as of a file system that was shut down. A missing folder
// was unmounted.
kj::Maybe<kj::String> readFirstEntry(kj::StringPtr folder) {
  DIR* open = opendir(folder.cStr());
  if (open == nullptr) {
    if (errno == ENOENT) return nullptr;
    return kj::str(strerror(errno));
  }
  KJ_DEFER(closedir(open));
  errno = 0;
  if (readdir(open) == nullptr && errno != 0) return kj::str(strerror(errno));
  return nullptr;
}

}  // namespace

kj::Promise<void> FileSystemWatch::watch() {
  for (;;) {
    co_await deps.timer.afterDelay(kLookPace);
    // If the check is impossible, the known state stays.
    co_await take().catch_([](kj::Exception&&) {});
    reportChanges();
  }
}

// Starts a check of each file system, and waits for those that end soon.
kj::Promise<void> FileSystemWatch::take() {
  if (deps.targets().empty()) co_return;
  auto text = co_await deps.mounts();
  auto targets = deps.targets();  // the current ones
  kj::Vector<kj::Own<Watched>> now;
  for (auto& mount : deviceMounts(text)) {
    if (!isWritten(mount) || !contains(targets, mount.target)) continue;
    kj::Own<Watched> watched;
    for (auto& old : all) {
      if (old && old->source == mount.source && old->target == mount.target) watched = kj::mv(old);
    }
    if (!watched) {
      watched = kj::heap<Watched>(Watched{kj::str(mount.source), kj::str(mount.target)});
    }
    now.add(kj::mv(watched));
  }
  all = kj::mv(now);
  kj::Vector<kj::Promise<void>> looks;
  for (auto& watched : all) {
    if (watched->since != nullptr) continue;
    watched->look = begin(*watched).fork();
    looks.add(watched->look.addBranch());
  }
  co_await kj::joinPromises(looks.releaseAsArray())
      .exclusiveJoin(deps.timer.afterDelay(kFirstAnswer));
}

kj::Promise<void> FileSystemWatch::begin(Watched& watched) {
  watched.since = deps.timer.now();
  return kj::evalNow([&]() { return deps.readFolder(kj::str(watched.target)); })
      .then(
          [&watched](kj::Maybe<kj::String> wrong) {
            watched.wrong = kj::mv(wrong);
            watched.since = nullptr;
          },
          [&watched](kj::Exception&&) { watched.since = nullptr; });
}

void FileSystemWatch::reportChanges() {
  kj::Vector<kj::String> problems;
  for (auto& watched : all) {
    KJ_IF_MAYBE (since, watched->since) {
      if (deps.timer.now() - *since >= kAnswerTimeout) {
        watched->wrong = kj::str("it did not answer within ", kAnswerTimeout / kj::SECONDS, " s");
      }
    }
    KJ_IF_MAYBE (wrong, watched->wrong) {
      problems.add(kj::str(shownName(watched->target), ": the file system of ", watched->source,
                           " failed: ", *wrong,
                           "; see talosctl dmesg, then reboot, or replace the disk"));
    }
  }
  if (sameTexts(problems, found)) return;
  kj::Vector<kj::StringPtr> fresh;
  for (auto& problem : problems) {
    if (!contains(found, problem)) fresh.add(problem);
  }
  found = kj::mv(problems);
  deps.changed(fresh);
}

FileSystemWatch::Dependencies fileSystemsOfDisks(
    kj::Timer& timer, ReadPool& looks, kj::Function<kj::Vector<kj::String>()> targets,
    kj::Function<void(kj::ArrayPtr<const kj::StringPtr> fresh)> changed) {
  return {.timer = timer,
          .mounts =
              [&looks]() {
                return looks.run("reading the mounts", []() { return readFile(kMountsFile); });
              },
          .targets = kj::mv(targets),
          .readFolder =
              [&looks](kj::String target) {
                auto doing = kj::str("looking at the file system at ", target);
                return looks.run(doing,
                                 [target = kj::mv(target)]() { return readFirstEntry(target); });
              },
          .changed = kj::mv(changed)};
}

}  // namespace talos::machined
