#include "machined/disk/volumes/unmount-volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/async.h>
#include <kj/thread.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/kernel/network-file-systems.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::machined {
namespace {

constexpr auto kTimeout = 5 * kj::SECONDS;
constexpr auto kFindUsersTimeout = 1 * kj::SECONDS;  // to find the processes that use it
constexpr auto kAgain = 50 * kj::MILLISECONDS;
constexpr unsigned kRefusals = 20;
constexpr auto kRefuseAgain = 200 * kj::MILLISECONDS;

bool hasUpperLayerIn(kj::ArrayPtr<const char> options, kj::StringPtr path) {
  auto wanted = kj::str(",upperdir=", path, "/");
  auto text = kj::str(",", options);
  return strstr(text.cStr(), wanted.cStr()) != nullptr;
}

struct Open {
  kj::String process, file;
};

// Returns the target of a link in /proc, if it is on the device.
kj::Maybe<kj::String> leadsTo(kj::StringPtr link, dev_t device) {
  struct stat info;
  if (stat(link.cStr(), &info) != 0 || info.st_dev != device) return nullptr;
  char target[512];
  ssize_t size = readlink(link.cStr(), target, sizeof target);
  if (size <= 0) return nullptr;
  return kj::heapString(target, static_cast<size_t>(size));
}

kj::Vector<kj::String> entriesOf(kj::StringPtr folder) {
  kj::Vector<kj::String> names;
  DIR* stream = opendir(folder.cStr());
  if (stream == nullptr) return names;
  KJ_DEFER(closedir(stream));
  while (auto* entry = readdir(stream)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') names.add(kj::str(entry->d_name));
  }
  return names;
}

kj::Maybe<kj::String> openIn(kj::StringPtr process, dev_t device) {
  for (auto link : {"cwd"_kj, "root"_kj, "exe"_kj}) {
    KJ_IF_MAYBE (file, leadsTo(kj::str(process, "/", link), device)) return kj::mv(*file);
  }
  auto folder = kj::str(process, "/fd");
  for (auto& fd : entriesOf(folder)) {
    KJ_IF_MAYBE (file, leadsTo(kj::str(folder, "/", fd), device)) return kj::mv(*file);
  }
  return nullptr;
}

int writtenTo(kj::StringPtr target) {
  int fd = open(target.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = syncfs(fd) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// Returns 0, or an errno.
int detach(kj::StringPtr target) {
  return umount2(target.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
}

// Makes calls that wait for the server fail, repeatedly because processes make further calls; so
// these processes end and release their other open files.
int abandon(kj::StringPtr target) {
  for (unsigned i = 0; i < kRefusals; ++i) {
    if (umount2(target.cStr(), MNT_FORCE | UMOUNT_NOFOLLOW) == 0 || errno != EBUSY) break;
    usleep(kRefuseAgain / kj::MICROSECONDS);
  }
  return detach(target);
}

kj::Promise<kj::Maybe<kj::String>> leaveServer(kj::Timer& timer, kj::String target) {
  auto written = co_await apart(timer, kTimeout, [path = kj::str(target)] {
    int error = writtenTo(path);
    if (error == 0) error = detach(path);
    return error;
  });
  KJ_IF_MAYBE (error, written) {
    if (*error == 0 || *error == EINVAL || *error == ENOENT) co_return nullptr;  // gone already
  }
  auto left = co_await apart(timer, kTimeout, [path = kj::str(target)] { return abandon(path); });
  (void)left;  // it is detached in any case
  co_return kj::str("the server of ", target, " did not ",
                    written == nullptr ? kj::str("answer within ", kTimeout / kj::SECONDS, " s")
                                       : kj::str("take what was to be written: ",
                                                 strerror(KJ_ASSERT_NONNULL(written))),
                    "; what was not written there is lost");
}

// Returns 0, or the last errno. Namespaces that a stuck process holds may also show the file
// system, which then stays in use: its content is written first.
int unmountOnce(kj::StringPtr target) {
  writtenTo(target);
  return umount2(target.cStr(), UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
}

}  // namespace

kj::Vector<kj::String> mountsOn(kj::StringPtr mountinfo, kj::StringPtr path, MountsOn which) {
  kj::Vector<MountLine> mounts;
  kj::ArrayPtr<const char> device;
  for (auto line : Lines(mountinfo)) {
    KJ_IF_MAYBE (mount, mountOf(line)) {
      if (mount->target == path.asArray()) device = mount->device;
      mounts.add(*mount);
    }
  }
  auto below = kj::str(path, "/");
  kj::Vector<kj::String> result;
  for (size_t i = mounts.size(); i > 0; --i) {
    auto& mount = mounts[i - 1];
    bool isBelow = mount.target.size() > below.size() &&
                   mount.target.slice(0, below.size()) == below.asArray();
    bool wanted = false;
    switch (which) {
      case MountsOn::kBelow:
        wanted = isBelow;
        break;
      case MountsOn::kServers:
        wanted = isBelow && isNetworkFileSystem(kj::heapString(mount.type).cStr());
        break;
      case MountsOn::kOverlays:
        wanted = !isBelow && mount.type == "overlay"_kj.asArray() &&
                 hasUpperLayerIn(mount.superOptions, path);
        break;
      case MountsOn::kOtherPlaces:
        wanted = !isBelow && mount.device == device && mount.target != path.asArray();
        break;
    }
    if (wanted) result.add(unescaped(mount.target));
  }
  return result;
}

kj::Maybe<kj::String> userOf(kj::StringPtr path, kj::StringPtr proc) {
  struct stat info;
  if (stat(path.cStr(), &info) != 0) return nullptr;
  for (auto& pid : entriesOf(proc)) {
    auto process = kj::str(proc, "/", pid);
    KJ_IF_MAYBE (file, openIn(process, info.st_dev)) {
      auto name = tryReadFile(kj::str(process, "/comm")).orDefault(kj::str("a process\n"));
      return kj::str(name.slice(0, name.size() > 0 ? name.size() - 1 : 0), " (PID ", pid, ") has ",
                     *file, " open");
    }
  }
  return nullptr;
}

kj::Promise<kj::Vector<kj::String>> detachServers(kj::Timer& timer,
                                                  kj::Vector<kj::String> targets) {
  auto all = KJ_MAP(target, targets) {
    return leaveServer(timer, kj::mv(target));
  };
  kj::Vector<kj::String> problems;
  for (auto& each : all) {
    KJ_IF_MAYBE (problem, co_await each) problems.add(kj::mv(*problem));
  }
  co_return problems;
}

kj::Promise<kj::Maybe<kj::String>> unmountWithin(UvLoop& uv, kj::Timer& timer, kj::String target) {
  auto deadline = timer.now() + kTimeout;
  while (isMountPoint(target, readFile("/proc/self/mountinfo"))) {
    auto rest = kj::max(deadline - timer.now(), 0 * kj::SECONDS);
    auto done = co_await apart(timer, rest, [path = kj::str(target)] { return unmountOnce(path); });
    int error = done.orDefault(ETIMEDOUT);
    if (error == 0) continue;  // another mount may be below it
    if (error == EINVAL) break;
    if ((error != EBUSY && error != ENOENT) || timer.now() >= deadline) {
      kj::Maybe<kj::String> user;
      if (error == EBUSY) {
        auto tooLong = timer.afterDelay(kFindUsersTimeout).then([]() -> kj::Maybe<kj::String> {
          return nullptr;
        });
        user = co_await uv.blocking([path = kj::str(target)]() { return userOf(path); })
                   .exclusiveJoin(kj::mv(tooLong));
      }
      co_return kj::str(
          "cannot unmount ", target, ": ",
          error == ETIMEDOUT ? kj::str("not done within ", kTimeout / kj::SECONDS, " s")
                             : kj::str(strerror(error)),
          user.map([](kj::String& u) { return kj::str("; ", u); }).orDefault(kj::String()));
    }
    co_await timer.afterDelay(kAgain);
  }
  co_return nullptr;
}

}  // namespace talos::machined
