#include "machined/process1/init/unmount-all.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "common/kernel/network-file-systems.h"
#include "machined/process1/init/init-clock.h"

namespace talos::process1 {
namespace {

constexpr int64_t kServersMs = 5'000, kOneMs = 5'000, kAllMs = 35'000, kSyncMs = 2'000;

// A line of mountinfo, split in place.
struct Mount {
  const char* device;  // "8:1"
  char* target;
  const char* type;
  const char* source;
};

void unescape(char* text) {
  char* out = text;
  for (char* in = text; *in != 0; ++in, ++out) {
    if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
        in[3] >= '0' && in[3] <= '7') {
      *out = static_cast<char>((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
      in += 3;
    } else {
      *out = *in;
    }
  }
  *out = 0;
}

bool parseMount(char* line, Mount& mount) {
  // id parent major:minor root target options... - type source super-options
  char* fields[32];
  unsigned count = 0, dash = 0;
  for (char* p = strtok_r(line, " ", &line); p != nullptr && count < 32;
       p = strtok_r(nullptr, " ", &line)) {
    if (count > 5 && dash == 0 && strcmp(p, "-") == 0) dash = count;
    fields[count++] = p;
  }
  if (dash == 0 || dash + 2 >= count) return false;
  mount.device = fields[2];
  mount.target = fields[4];
  mount.type = fields[dash + 1];
  mount.source = fields[dash + 2];
  unescape(mount.target);
  return true;
}

bool staysMounted(const Mount& mount) {
  for (const char* type : {"proc", "sysfs", "devtmpfs", "devpts", "cgroup2", "rootfs", "ramfs"}) {
    if (strcmp(mount.type, type) == 0) return true;
  }
  return strcmp(mount.target, "/") == 0;
}

bool isOnDevice(const Mount& mount) {
  return strncmp(mount.source, "/dev/", 5) == 0;
}

// The mounts to unmount, oldest first.
struct MountTable {
  char text[256 * 1024];
  Mount mounts[4096];
  unsigned count = 0;

  void read();
};

void MountTable::read() {
  int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
  size_t used = 0;
  ssize_t size;
  while (fd >= 0 && used < sizeof(text) - 1 &&
         (size = ::read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
    used += static_cast<size_t>(size);
  }
  if (fd >= 0) close(fd);
  text[used] = 0;
  char* rest = text;
  for (char* line; count < 4096 && (line = strtok_r(rest, "\n", &rest)) != nullptr;) {
    if (parseMount(line, mounts[count]) && !staysMounted(mounts[count])) ++count;
  }
}

// Runs `f` in a child; returns 0 if there is no child.
template <typename F>
pid_t inChild(const Console& console, F&& f) {
  pid_t pid = fork();
  if (pid == 0) {
    f();
    _exit(0);
  }
  if (pid < 0) console.error("cannot start unmounting: ", errorText(errno));
  return pid < 0 ? 0 : pid;
}

// Namespaces that a stuck process keeps may show the file system, too, so its content is written
// first. A busy file system is made read-only, so that it is complete on the disk.
void unmountOne(const Mount& mount, const Console& console) {
  if (isOnDevice(mount)) {
    int fd = open(mount.target, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
      syncfs(fd);
      close(fd);
    }
  }
  if (umount2(mount.target, UMOUNT_NOFOLLOW) == 0 || !isOnDevice(mount)) return;
  int error = errno;
  if (::mount(nullptr, mount.target, nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
    console.error("cannot unmount ", static_cast<const char*>(mount.target), ": ",
                  errorText(error));
  }
}

// Detaches network mounts from the tree immediately, so that the mounts below them can be
// unmounted, and lets all of them write their content at the same time.
void leaveServers(const MountTable& table, const Console& console) {
  static pid_t children[4096];
  for (unsigned i = table.count; i > 0; --i) {
    auto& mount = table.mounts[i - 1];
    children[i - 1] =
        isNetworkFileSystem(mount.type)
            ? inChild(console, [&] { umount2(mount.target, MNT_DETACH | UMOUNT_NOFOLLOW); })
            : 0;
  }
  int64_t deadline = now() + kServersMs;
  for (unsigned i = table.count; i > 0; --i) {
    if (children[i - 1] == 0 || reapUntil(children[i - 1], deadline - now())) continue;
    auto& mount = table.mounts[i - 1];
    console.error("the server of ", mount.source, " at ", static_cast<const char*>(mount.target),
                  " does not answer; what was not written there is lost");
  }
}

// Returns the KiB of file systems that are in memory and not on their disks yet; 0: not known.
int64_t unwrittenKilobytes() {
  char text[8192];
  int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  text[size < 0 ? 0 : size] = 0;
  int64_t sum = 0;
  for (const char* key : {"\nDirty:", "\nWriteback:"}) {
    const char* line = strstr(text, key);
    if (line != nullptr) sum += strtoll(line + strlen(key), nullptr, 10);
  }
  return sum;
}

// A slow disk writes the content little by little, and is waited for as long as the rest decreases.
bool reapWhileItWrites(pid_t child, int64_t deadline) {
  for (int64_t unwritten = unwrittenKilobytes();;) {
    int64_t left = deadline - now();
    if (reapUntil(child, left < kOneMs ? left : kOneMs)) return true;
    int64_t rest = unwrittenKilobytes();
    if (now() >= deadline || rest >= unwritten) return false;
    unwritten = rest;
  }
}

}  // namespace

bool reapUntil(pid_t child, int64_t ms) {
  int64_t deadline = now() + ms;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (;;) {
    pid_t pid = waitpid(child == 0 ? -1 : child, nullptr, WNOHANG);
    if (pid > 0 && child == 0) continue;
    if (pid > 0 || (pid < 0 && errno == ECHILD)) return true;
    int64_t left = deadline - now();
    if (left <= 0) return false;
    struct timespec wait = {0, (left < 100 ? left : 100) * 1'000'000};
    sigtimedwait(&set, nullptr, &wait);
  }
}

void unmountAll(const Console& console) {
  static MountTable table;
  int64_t deadline = now() + kAllMs;
  table.read();
  leaveServers(table, console);
  static const char* hanging[4096];  // devices
  unsigned hangs = 0;
  for (unsigned i = table.count; i > 0; --i) {
    auto& mount = table.mounts[i - 1];
    if (isNetworkFileSystem(mount.type)) continue;
    pid_t child = inChild(console, [&] { unmountOne(mount, console); });
    bool again = false;
    for (unsigned k = 0; k < hangs; ++k) again = again || strcmp(hanging[k], mount.device) == 0;
    if (again) continue;  // its device has had its time, and the others need theirs
    if (child == 0 || reapWhileItWrites(child, deadline)) continue;
    hanging[hangs++] = mount.device;
    console.error("unmounting ", static_cast<const char*>(mount.target),
                  " timed out; shutting down without it");
  }
  // Writes content that no mount shows. The call waits for each file system that hangs.
  pid_t last = inChild(console, [] { sync(); });
  int64_t left = deadline - now();
  int64_t time = hangs > 0 || left < kSyncMs ? kSyncMs : left;
  if (last != 0 && !reapUntil(last, time) && hangs == 0) {
    console.error("writing to the disks timed out; shutting down anyway");
  }
}

}  // namespace talos::process1
