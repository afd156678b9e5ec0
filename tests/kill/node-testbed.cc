#include "tests/kill/node-testbed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "machined/process1/init/init-loop.h"

namespace talos::kill {
namespace {

constexpr size_t kConsoleKept = 64u << 10;

void must(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "node testbed: cannot %s: %s\n", what, strerror(errno));
  _exit(99);
}

void mountAt(const char* source, const char* target, const char* type, unsigned long flags = 0,
             const char* data = nullptr) {
  mkdir(target, 0755);
  must(mount(source, target, type, flags, data) == 0, target);
}

// Their users and capabilities are theirs; filters, files and the score are left out.
constexpr const char* kConfine = R"(#!/bin/sh
capabilities=
while [ "$1" != -- ]; do
  case $1 in
    --uid=*) user=${1#--uid=} ;;
    --capabilities=*) capabilities=+$(echo "${1#--capabilities=}" | sed 's/,/,+/g') ;;
  esac
  shift
done
shift
exec setpriv --reuid="$user" --regid="$user" --clear-groups \
  ${capabilities:+--inh-caps="$capabilities" --ambient-caps="$capabilities"} "$@"
)";

void writeFile(const std::string& path, const std::string& text, mode_t mode = 0644) {
  unlink(path.c_str());
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  must(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           fchmod(fd, mode) == 0,
       path.c_str());
  close(fd);
}

std::string readSmall(const std::string& path) {
  char text[256] = {};
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  return std::string(text, n < 0 ? 0 : static_cast<size_t>(n));
}

// Hides settings of a container's kernel that are its host's. Those that the programs read and
// those of this namespace exist; the others are absent, as on a kernel without them.
void hideSettings() {
  const std::string all = "/mnt/root/proc/sys", kept = "/mnt/kept";
  mkdir(kept.c_str(), 0755);
  must(mount(all.c_str(), kept.c_str(), nullptr, MS_BIND, nullptr) == 0, "keep /proc/sys");
  mountAt("tmpfs", all.c_str(), "tmpfs", 0, "mode=0755");
  for (auto* folder : {"/kernel", "/kernel/random", "/net"}) mkdir((all + folder).c_str(), 0755);
  for (auto* name : {"/kernel/random/boot_id", "/kernel/hostname"}) writeFile(all + name, "");
  for (auto* name : {"/kernel/random/boot_id", "/kernel/hostname", "/net"}) {
    must(mount((kept + name).c_str(), (all + name).c_str(), nullptr, MS_BIND, nullptr) == 0, name);
  }
}

// Enters a root that is this program's, with a layer of memory and a node's files over it.
void enterRoot(const std::string& programs) {
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  mountAt("tmpfs", "/mnt", "tmpfs");
  for (auto* folder : {"/mnt/upper", "/mnt/work", "/mnt/programs"}) mkdir(folder, 0755);
  must(mount(programs.c_str(), "/mnt/programs", nullptr, MS_BIND, nullptr) == 0, "bind programs");
  mountAt("overlay", "/mnt/root", "overlay", 0, "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work");
  mountAt("proc", "/mnt/root/proc", "proc");
  // The node's kernel log is a file: messages to it do not reach the host's.
  mountAt("tmpfs", "/mnt/root/dev", "tmpfs", 0, "mode=0755");
  for (auto* device : {"null", "zero", "random", "urandom", "kmsg"}) {
    auto path = std::string("/mnt/root/dev/") + device;
    close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (strcmp(device, "kmsg") == 0) continue;
    must(mount((std::string("/dev/") + device).c_str(), path.c_str(), nullptr, MS_BIND, nullptr) ==
             0,
         device);
  }
  mountAt("sysfs", "/mnt/root/sys", "sysfs", MS_RDONLY);
  for (auto* folder : {"run", "system", "var", "tmp"}) {
    mountAt("tmpfs", (std::string("/mnt/root/") + folder).c_str(), "tmpfs", 0, "mode=0755");
  }
  mkdir("/mnt/root/usr/libexec", 0755);
  mkdir("/mnt/root/usr/libexec/talos", 0755);
  // containerd itself is that of the build root, as in the image.
  mkdir("/mnt/root/etc/cri", 0755);
  writeFile("/mnt/root/etc/cri/containerd.toml",
            "version = 2\nimports = [\"/system/etc/cri/conf.d/*.toml\"]\n");
  // The user who runs the tests may not be allowed to lower an OOM score.
  writeFile("/mnt/root/usr/libexec/talos/confine", kConfine, 0755);
  hideSettings();
  // The folders of a node that are writable by means of /var.
  for (auto* folder :
       {"etc/kubernetes", "etc/cni", "usr/libexec/kubernetes", "usr/etc", "usr/etc/udev", "opt"}) {
    mkdir((std::string("/mnt/root/") + folder).c_str(), 0755);
  }
  for (auto [name, at] :
       {std::pair("machined", "usr/bin/machined"), std::pair("networkd", "usr/bin/networkd"),
        std::pair("apid", "usr/bin/apid"), std::pair("trustd", "usr/bin/trustd"),
        std::pair("parse", "usr/libexec/talos/parse")}) {
    auto path = std::string("/mnt/root/") + at;
    unlink(path.c_str());
    close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    must(mount((programs + "/" + name).c_str(), path.c_str(), nullptr, MS_BIND, nullptr) == 0,
         name);
  }
  must(chdir("/mnt/root") == 0 && mkdir("old", 0755) + 1 >= 0 &&
           syscall(SYS_pivot_root, ".", "old") == 0 && chroot(".") == 0,
       "enter the root");
  must(umount2("/old", MNT_DETACH) == 0, "let go of the old root");
}

void raiseLoopback() {
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {};
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  must(ioctl(fd, SIOCSIFFLAGS, &request) == 0, "raise lo");
  close(fd);
}

[[noreturn]] void become(const std::string& programs, int console) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // also with a test that is killed
  enterRoot(programs);
  raiseLoopback();
  static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  static char platform[] = "PLATFORM=container";
  static char* environment[] = {path, platform, nullptr};
  process1::Settings settings;
  settings.brainEnvironment = environment;
  settings.cgroupRoot = "";
  settings.backsOff = false;  // it is killed on purpose
  static auto* loop = new process1::Loop(settings, process1::Console(console, "", false));
  loop->run();
}

std::string readEnd(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  off_t size = lseek(fd, 0, SEEK_END);
  std::string text(static_cast<size_t>(size < 8192 ? size : 8192), 0);
  ssize_t n = pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  close(fd);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace

NodeTestbed::NodeTestbed(const std::string& programs) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  struct clone_args args = {};
  args.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC;
  args.exit_signal = SIGCHLD;
  long pid = syscall(SYS_clone3, &args, sizeof(args));
  if (pid < 0) throw std::runtime_error("cannot make the namespaces; this needs root");
  if (pid == 0) become(programs, ends[1]);
  init = static_cast<int>(pid);
  close(ends[1]);
  consoleEnd = ends[0];
}

NodeTestbed::~NodeTestbed() {
  ::kill(init, SIGKILL);  // the kernel ends its namespaces with it
  waitpid(init, nullptr, 0);
  close(consoleEnd);
}

int NodeTestbed::process(const std::string& name) const {
  auto children =
      readSmall("/proc/" + std::to_string(init) + "/task/" + std::to_string(init) + "/children");
  for (char* at = children.data(); *at != 0;) {
    long pid = strtol(at, &at, 10);
    if (pid <= 0) break;
    if (readSmall("/proc/" + std::to_string(pid) + "/comm") == name + "\n") {
      return static_cast<int>(pid);
    }
    while (*at == ' ') ++at;
  }
  return 0;
}

std::string NodeTestbed::socket() const {
  return "/proc/" + std::to_string(init) + "/root/run/talos/machined.sock";
}

std::string NodeTestbed::console() {
  char buffer[4096];
  for (ssize_t n; (n = read(consoleEnd, buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
  }
  if (said.size() > kConsoleKept) said.erase(0, said.size() - kConsoleKept);
  return said + readEnd("/proc/" + std::to_string(init) + "/root/dev/kmsg");
}

}  // namespace talos::kill
