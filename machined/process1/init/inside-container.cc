#include "machined/process1/init/inside-container.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace talos::process1 {
namespace {

// Inode of the kernel's first pid namespace, a constant of its interface (PROC_PID_INIT_INO).
constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;

bool isFileSystem(__fsword_t type, const char* path) {
  struct statfs found;
  return statfs(path, &found) == 0 && found.f_type == type;
}

// Returns the folder `name` below `at`, in `buffer`, if this type is mounted there, else "".
const char* folderOf(__fsword_t type, const char* at, const char* name, char (&buffer)[256]) {
  snprintf(buffer, sizeof(buffer), "%s/%s", at, name);
  return isFileSystem(type, buffer) ? buffer : "";
}

// Returns -1 with errno on failure.
int sealedFile(const char* name, const char* text, size_t size) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  while (size > 0) {
    ssize_t written = write(fd, text, size);
    if (written <= 0) {
      int error = errno;
      close(fd);
      errno = error;
      return -1;
    }
    text += written;
    size -= static_cast<size_t>(written);
  }
  fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  return fd;
}

}  // namespace

bool inContainer() {
  struct stat found;
  return stat("/proc/self/ns/pid", &found) != 0 || found.st_ino != kFirstPidNamespace;
}

bool hasOwnCommandLine(const char* proc) {
  char path[256];
  snprintf(path, sizeof(path), "%s/cmdline", proc);
  struct stat all, one;
  return stat(proc, &all) == 0 && stat(path, &one) == 0 && all.st_dev != one.st_dev;
}

const char* findCgroupRoot(const char* at) {
  static char unified[256];
  return isFileSystem(CGROUP2_SUPER_MAGIC, at)
             ? at
             : folderOf(CGROUP2_SUPER_MAGIC, at, "unified", unified);
}

const char* findMemoryRoot(const char* at) {
  static char memory[256];
  return folderOf(CGROUP_SUPER_MAGIC, at, "memory", memory);
}

Console openContainerConsole(const char* prefix, int& fd) {
  fd = open("/proc/self/fd/1", O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) fd = 1;
  return Console(fd, prefix, false);
}

void takeOver(char** environment, HandedOver& out, const Console& console) {
  struct utsname names;
  if (uname(&names) == 0) strncat(out.hostname, names.nodename, 64);
  constexpr char kUserDataIs[] = "USERDATA=", kPlatformIs[] = "PLATFORM=";
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (strncmp(*entry, kPlatformIs, strlen(kPlatformIs)) == 0 &&
        strcmp(*entry, out.platform) != 0) {
      console.error("this is a container, but the environment has ",
                    static_cast<const char*>(*entry), "; using ",
                    static_cast<const char*>(out.platform));
    }
    if (strncmp(*entry, kUserDataIs, strlen(kUserDataIs)) != 0) continue;
    char* text = *entry + strlen(kUserDataIs);
    size_t size = strlen(text);
    if (size > 0 && out.userData < 0) {
      out.userData = sealedFile("userdata", text, size);
      if (out.userData < 0) console.error("cannot keep USERDATA: ", errorText(errno));
    }
    explicit_bzero(text, size);
  }
}

}  // namespace talos::process1
