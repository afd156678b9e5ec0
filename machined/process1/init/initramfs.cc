#include "machined/process1/init/initramfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machined/process1/init/first-mounts.h"
#include "machined/process1/init/machine-shutdown.h"
#include "machined/process1/init/root-layers.h"

namespace talos::process1 {
namespace {

// File with one file name a line, in loading order; the image builder writes it.
constexpr const char* kModules = "/lib/modules/load";

}  // namespace

void stopInitramfs(const Console& console, const char* what, const char* object) {
  int error = errno;
  Line line;
  line.add("cannot ").add(what).add(" ").add(object);
  haltWithError(console, line.text(), error);
}

void loadListedModules(const Console& console, const char* file) {
  int list = open(file, O_RDONLY | O_CLOEXEC);
  if (list < 0) return;  // a kernel with everything built in
  char text[4096];
  ssize_t size = read(list, text, sizeof(text) - 1);
  close(list);
  text[size < 0 ? 0 : size] = 0;
  char* rest = text;
  for (char* name; (name = strtok_r(rest, "\n", &rest)) != nullptr;) {
    char path[256];
    snprintf(path, sizeof(path), "/lib/modules/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) stopInitramfs(console, "open the module", path);
    if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST) {
      stopInitramfs(console, "load the module", path);
    }
    close(fd);
  }
}

void mountImageFile(const Console& console, const char* file, const char* folder) {
  int image = open(file, O_RDONLY | O_CLOEXEC);
  if (image < 0) stopInitramfs(console, "open", file);
  int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) stopInitramfs(console, "open", "/dev/loop-control");
  int number = ioctl(control, LOOP_CTL_GET_FREE);
  if (number < 0) stopInitramfs(console, "get a loop device");
  char device[32];
  snprintf(device, sizeof(device), "/dev/loop%d", number);
  int loop = open(device, O_RDONLY | O_CLOEXEC);
  if (loop < 0) stopInitramfs(console, "open", device);
  struct loop_config config = {};
  config.fd = static_cast<uint32_t>(image);
  config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
  strncpy(reinterpret_cast<char*>(config.info.lo_file_name), file, LO_NAME_SIZE - 1);
  if (ioctl(loop, LOOP_CONFIGURE, &config) != 0)
    stopInitramfs(console, "attach an image to", device);
  mkdir(folder, 0755);
  if (mount(device, folder, "squashfs", MS_RDONLY | MS_I_VERSION, nullptr) != 0) {
    stopInitramfs(console, "mount the image", file);
  }
  close(loop);
  close(control);
  close(image);
}

namespace {

// Deletes everything below the directory that is on its device. Closes the descriptor.
void deleteTree(int directory, dev_t device) {
  alignas(struct dirent64) char buffer[4096];
  for (;;) {
    long size = syscall(SYS_getdents64, directory, buffer, sizeof(buffer));
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      auto* entry = reinterpret_cast<struct dirent64*>(buffer + at);
      at += entry->d_reclen;
      const char* name = entry->d_name;
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
      struct stat info;
      if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_dev != device) {
        continue;
      }
      if (S_ISDIR(info.st_mode)) {
        int below = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) deleteTree(below, device);
      }
      // A file that cannot be deleted only costs memory.
      if (unlinkat(directory, name, S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) != 0) errno = 0;
    }
  }
  close(directory);
}

void switchRoot(const Console& console) {
  int old = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat info;
  if (old < 0 || fstat(old, &info) != 0) stopInitramfs(console, "open", "/");
  for (auto* m = kFirstMounts; m->target != nullptr; ++m) {
    char target[64];
    snprintf(target, sizeof(target), "/root%s", m->target);
    if (mount(m->target, target, nullptr, MS_MOVE, nullptr) != 0)
      stopInitramfs(console, "move", m->target);
  }
  if (chdir("/root") != 0) stopInitramfs(console, "enter", "/root");
  if (mount("/root", "/", nullptr, MS_MOVE, nullptr) != 0)
    stopInitramfs(console, "move the root to", "/");
  if (chroot(".") != 0 || chdir("/") != 0) stopInitramfs(console, "change the root");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) != 0) {
    stopInitramfs(console, "make the root shared");
  }
  deleteTree(old, info.st_dev);
}

}  // namespace

void runInitramfs() {
  Console early(2, "[talos] [initramfs] ", false);
  auto* failedFirst = mountAll(kFirstMounts, early);
  trialSecondsOfCommandLine();  // while /proc can be read
  if (failedFirst != nullptr) stopInitramfs(early, "mount", failedFirst->target);
  Console console = openConsole("[talos] [initramfs] ");
  if (auto* failed = mountAll(kMoreMounts, console))
    stopInitramfs(console, "mount", failed->target);
  console.info("mounting the root image");
  loadListedModules(console, kModules);
  if (access(kLayerList, F_OK) == 0) {
    mountLayers(console);
  } else {
    mountImageFile(console, kRootImage, "/root");
  }
  switchRoot(console);
  console.info("starting /sbin/init");
  char* argv[] = {const_cast<char*>("/sbin/init"), nullptr};
  char* environment[] = {nullptr};
  execve(argv[0], argv, environment);
  stopInitramfs(console, "start", argv[0]);
}

}  // namespace talos::process1
