#include "machined/process1/init/first-mounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

namespace talos::process1 {

constexpr unsigned long kStrict = MS_NOSUID | MS_NOEXEC | MS_NODEV;

const PseudoMount kFirstMounts[] = {
    // Comes first: it tells if this system is on trial, and so must give way when anything fails.
    {"proc", "/proc", "proc", kStrict, "", true},
    {"devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755", true},
    {"sysfs", "/sys", "sysfs", 0, "", true},
    {"tmpfs", "/run", "tmpfs", 0, "mode=0755", true},
    {"tmpfs", "/system", "tmpfs", 0, "mode=0755", true},
    {"tmpfs", "/tmp", "tmpfs", 0, "mode=1777", true},
    {nullptr, nullptr, nullptr, 0, nullptr, false},
};

const PseudoMount kMoreMounts[] = {
    {"cgroup2", "/sys/fs/cgroup", "cgroup2", kStrict | MS_RELATIME,
     "nsdelegate,memory_recursiveprot", true},
    {"devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=000,mode=620,gid=5", false},
    {"tmpfs", "/dev/shm", "tmpfs", kStrict | MS_RELATIME, "mode=1777", false},
    {"hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, "", false},
    {"securityfs", "/sys/kernel/security", "securityfs", kStrict | MS_RELATIME, "", false},
    {"bpffs", "/sys/fs/bpf", "bpf", 0, "mode=0700", false},
    {nullptr, nullptr, nullptr, 0, nullptr, false},
};

namespace {

// Returns true if the directory is on another device than its parent.
bool isMountPoint(const char* target) {
  char parent[64];
  struct stat self, above;
  snprintf(parent, sizeof(parent), "%s/..", target);
  return stat(target, &self) == 0 && stat(parent, &above) == 0 && self.st_dev != above.st_dev;
}

}  // namespace

const PseudoMount* mountAll(const PseudoMount* table, const Console& console) {
  for (auto* m = table; m->target != nullptr; ++m) {
    if (isMountPoint(m->target)) continue;
    mkdir(m->target, 0755);  // exists already, or mount reports the error
    if (mount(m->source, m->target, m->type, m->flags, m->data) == 0 || errno == EBUSY) continue;
    int error = errno;
    if (m->required) {
      errno = error;
      return m;
    }
    console.error("cannot mount ", m->target, " (", m->type, "): ", errorText(error));
  }
  return nullptr;
}

}  // namespace talos::process1
