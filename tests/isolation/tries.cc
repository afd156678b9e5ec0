#include "tests/isolation/tries.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace talos::isolation {
namespace {

using enum Outcome;
using Host = const HostFacts&;

// The outcome of a failed system call.
Outcome failure() {
  switch (errno) {
    case EPERM:
    case EACCES:
    case EROFS:
      return kRefused;
    default:
      return kNotThere;
  }
}
// Returns kPossible for an action that worked on an object of the host, otherwise its failure.
Outcome onHost(long result) {
  return result < 0 ? failure() : kPossible;
}

Outcome openOnly(const char* path, int flags) {
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failure();
  close(fd);
  return kPossible;
}

std::string content(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Covered by an empty file, or by none.
Outcome hidden(const char* path) {
  if (access(path, F_OK) < 0) return kNotThere;
  char byte;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failure();
  bool empty = read(fd, &byte, 1) <= 0;
  close(fd);
  return empty ? kNotThere : kPossible;
}

// Makes a device file and opens it.
Outcome device(mode_t kind, unsigned major, unsigned minor, int flags = O_RDONLY) {
  const char* path = "/dev/try";
  unlink(path);
  if (mknod(path, kind | 0600, makedev(major, minor)) < 0) return failure();
  auto outcome = openOnly(path, flags);
  unlink(path);
  return outcome;
}

Outcome disk(Host host, bool mounted) {
  unsigned major = 0, minor = 0;
  sscanf(host.disk.c_str(), "%u:%u", &major, &minor);
  if (!mounted) return device(S_IFBLK, major, minor);
  const char* path = "/dev/try";
  mknod(path, S_IFBLK | 0600, makedev(major, minor));
  mkdir("/run/try", 0700);
  // On the host: the kernel finds the mounted file system and does not check a device filter.
  auto outcome = onHost(mount(path, "/run/try", "ext4", 0, nullptr));
  if (outcome == kPossible) umount("/run/try");
  unlink(path);
  return outcome;
}

// Mounts a file system of the kernel again and opens a file of it; then unmounts it.
Outcome mountAndOpen(const char* type, const char* file, int flags) {
  mkdir("/run/try", 0700);
  if (mount(type, "/run/try", type, 0, nullptr) < 0) return failure();
  // The first mount of it, which is read-only, has decided for all; it is the container's own.
  if (strcmp(type, "sysfs") == 0) mount(nullptr, "/run/try", nullptr, MS_REMOUNT, nullptr);
  auto outcome = openOnly((std::string("/run/try/") + file).c_str(), flags);
  umount("/run/try");
  return outcome;
}

Outcome connectTo(int family, const void* address, size_t size) {
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto outcome = onHost(connect(fd, static_cast<const sockaddr*>(address), size));
  close(fd);
  return outcome;
}

Outcome connectToPort(Host host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(atoi(host.port.c_str()));
  return connectTo(AF_INET, &address, sizeof address);
}

Outcome connectToSocket(Host host) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, host.socket.data(), host.socket.size());
  return connectTo(AF_UNIX, &address, offsetof(sockaddr_un, sun_path) + 1 + host.socket.size());
}

// Mounts the root of the mount namespace again, which would show the files around the image.
Outcome leaveRoot(Host host) {
  int self = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (self < 0 || setns(self, CLONE_NEWNS) < 0) return failure();
  close(self);
  return openOnly(host.file.c_str(), O_RDONLY);
}

Outcome openByHandle(Host) {
  struct {
    file_handle head;
    unsigned char bytes[8];
  } handle{};
  handle.head.handle_bytes = 8;
  handle.head.handle_type = 1;
  handle.bytes[0] = 2;  // the root of an ext4
  int around = open("/var", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto outcome = onHost(syscall(SYS_open_by_handle_at, around, &handle, O_RDONLY));
  close(around);
  return outcome;
}

long loadProgram(uint32_t type) {
  bpf_insn code[2] = {};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;  // r0 = 0
  code[1].code = BPF_JMP | BPF_EXIT;
  bpf_attr attributes{};
  attributes.prog_type = type;
  attributes.insns = reinterpret_cast<uint64_t>(code);
  attributes.insn_cnt = 2;
  attributes.license = reinterpret_cast<uint64_t>("GPL");
  return syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
}

const char* unifiedFolder() {
  return access("/sys/fs/cgroup/unified", F_OK) == 0 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
}

// The filter of devices is on a cgroup that cannot be named here.
Outcome detachFilter(Host) {
  int folder = open(unifiedFolder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  uint32_t ids[8] = {};
  bpf_attr attributes{};
  attributes.query.target_fd = folder;
  attributes.query.attach_type = BPF_CGROUP_DEVICE;
  attributes.query.prog_ids = reinterpret_cast<uint64_t>(ids);
  attributes.query.prog_cnt = 8;
  long result = syscall(SYS_bpf, BPF_PROG_QUERY, &attributes, sizeof attributes);
  close(folder);
  if (result < 0) return failure();
  return attributes.query.prog_cnt > 0 ? kPossible : kNotThere;
}

// The file with which a v1 hierarchy starts a program of the host.
Outcome releaseAgent(Host) {
  if (access("/sys/fs/cgroup/memory", F_OK) < 0) return kNotThere;
  return openOnly("/sys/fs/cgroup/memory/release_agent", O_WRONLY);
}

Outcome newHierarchy(Host) {
  mkdir("/run/try", 0700);
  auto outcome =
      onHost(mount("cgroup", "/run/try", "cgroup", 0, "none,name=try,release_agent=/run/try.sh"));
  if (outcome == kPossible) umount("/run/try");
  return outcome;
}

// A cgroup of the host beside or above ours.
Outcome otherCgroup(Host) {
  mkdir("/run/try", 0700);
  if (mount("cgroup2", "/run/try", "cgroup2", 0, nullptr) < 0) return failure();
  auto outcome = access("/run/try/talos", F_OK) == 0 ? kPossible : kNotThere;
  umount("/run/try");
  return outcome;
}

Outcome setClock(Host) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return onHost(clock_settime(CLOCK_REALTIME, &now));
}

Outcome adjustClock(Host) {
  timex change{};
  change.modes = ADJ_TICK;
  change.tick = 10000;  // the usual one
  return onHost(adjtimex(&change));
}

Outcome perf(Host) {
  char attributes[128] = {};
  attributes[4] = 112;  // its size
  return onHost(syscall(SYS_perf_event_open, attributes, -1, 0, -1, 0));
}

Outcome writeKernelFile(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return failure();
  auto outcome = write(fd, text, strlen(text)) < 0 ? failure() : kPossible;
  close(fd);
  return outcome;
}

Outcome ownSysctl(Host) {
  auto outcome = writeKernelFile("/proc/sys/net/ipv4/ip_forward", "1");
  return outcome == kPossible ? kOwn : outcome;
}

// A parameter of the whole kernel that the kubelet sets: a file of the node is where it is looked
// for.
Outcome fileForParameter(Host) {
  constexpr const char* kPath = "/proc/sys/vm/overcommit_memory";
  auto outcome = openOnly(kPath, O_WRONLY);
  struct statfs info = {};
  if (outcome != kPossible || statfs(kPath, &info) < 0) return outcome;
  return info.f_type == PROC_SUPER_MAGIC ? kPossible : kOwn;
}

Outcome makeSysctlsWritable(Host) {
  auto outcome = onHost(mount(nullptr, "/proc/sys", nullptr, MS_REMOUNT | MS_BIND, nullptr));
  if (outcome != kPossible) return outcome;
  outcome = openOnly("/proc/sys/kernel/core_pattern", O_WRONLY);
  mount(nullptr, "/proc/sys", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr);
  return outcome;
}

Outcome hostKey(Host host) {
  return onHost(
      syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", host.key.c_str(), 0));
}

Outcome attach(Host host) {
  return onHost(ptrace(PTRACE_SEIZE, atoi(host.process.c_str()), nullptr, nullptr));
}

Outcome changeHostname(Host) {
  return sethostname("try", 3) < 0 ? failure() : kOwn;  // that of the host is looked at outside
}

Outcome bootIdOf(Host host) {
  auto id = content("/proc/sys/kernel/random/boot_id");
  return id.size() > 30 && id != host.bootId ? kOwn : kPossible;
}

// --- what hosts differ in

bool noFileSystem(const char* type) {
  std::ifstream file("/proc/filesystems");
  for (std::string word; file >> word;) {
    if (word == type) return false;
  }
  return true;
}
bool noExt4() {
  struct statfs root{};
  return statfs("/", &root) < 0 || root.f_type != EXT4_SUPER_MAGIC ||
         (root.f_flags & ST_RDONLY) != 0;
}
// Returns true for kernels that open the device, which the filter refuses, before they look for a
// mount of it.
bool beforeLateOpen() {
  utsname kernel{};
  int major = 0, minor = 0;
  return uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
         (major < 6 || (major == 6 && minor < 6));
}
bool noModules() {
  return access("/proc/modules", F_OK) < 0;
}
bool noIopl() {
  return iopl(0) < 0 && errno == ENOSYS;
}
bool noSysrq() {
  return access("/proc/sysrq-trigger", F_OK) < 0;
}
bool noHugePages() {
  return access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) < 0;
}
bool noTracing() {
  long program = loadProgram(BPF_PROG_TYPE_RAW_TRACEPOINT);
  if (program < 0) return true;
  close(static_cast<int>(program));
  return false;
}

}  // namespace

const std::vector<Try>& tries() {
  static const std::vector<Try> all = {
      {"open a disk of the host by its numbers", kRefused, [](Host h) { return disk(h, false); }},
      {"mount a disk that the host has mounted",
       kPossible,
       [](Host h) { return disk(h, true); },
       {{kRefused, "by kernels before 6.6", beforeLateOpen},
        {kNotThere, "where it is not an ext4 that can be written", noExt4}}},
      {"open the memory of the host, /dev/mem", kRefused,
       [](Host) { return device(S_IFCHR, 1, 1); }},
      {"open I/O ports, /dev/port", kRefused, [](Host) { return device(S_IFCHR, 1, 4); }},
      {"open /dev/kvm", kRefused, [](Host) { return device(S_IFCHR, 10, 232); }},
      {"open /dev/loop-control", kRefused, [](Host) { return device(S_IFCHR, 10, 237); }},
      {"open the console of the host", kRefused, [](Host) { return device(S_IFCHR, 5, 1); }},
      {"read the kernel log, /dev/kmsg", kRefused, [](Host) { return device(S_IFCHR, 1, 11); }},
      {"read the kernel log, syslog(2)", kRefused,
       [](Host) { return onHost(syscall(SYS_syslog, 10, 0, 0)); }},
      {"read /proc/kcore", kNotThere, [](Host) { return hidden("/proc/kcore"); }},
      {"read /proc/kallsyms", kNotThere, [](Host) { return hidden("/proc/kallsyms"); }},
      {"read the kernel's command line", kOwn,
       [](Host) { return content("/proc/cmdline") == kArguments + "\n" ? kOwn : kPossible; }},
      {"load a kernel module",
       kRefused,
       [](Host) { return onHost(syscall(SYS_init_module, "", 0, "")); },
       {{kNotThere, "where the kernel loads no modules", noModules}}},
      {"load a kernel for kexec", kRefused,
       [](Host) { return onHost(syscall(SYS_kexec_load, 0, 0, nullptr, 0)); }},
      {"set the clock", kRefused, setClock},
      {"adjust the clock", kRefused, adjustClock},
      {"use I/O ports, iopl(2)",
       kRefused,
       [](Host) { return onHost(iopl(3)); },
       {{kNotThere, "where the kernel has no iopl", noIopl}}},
      {"turn on swap", kRefused, [](Host) { return onHost(swapon("/run/.boot-id", 0)); }},
      {"turn on process accounting", kRefused, [](Host) { return onHost(acct("/run/.boot-id")); }},
      {"open a file of the host by handle", kRefused, openByHandle},
      {"open a file of the host by path", kNotThere,
       [](Host h) { return openOnly(h.file.c_str(), O_RDONLY); }},
      {"leave the image by setns(2)", kNotThere, leaveRoot},
      {"write to the image", kRefused, [](Host) { return openOnly("/etc", O_TMPFILE | O_WRONLY); }},
      {"signal a process of the host", kNotThere,
       [](Host h) { return onHost(kill(atoi(h.process.c_str()), 0)); }},
      {"trace a process of the host", kNotThere, attach},
      {"read the host's shared memory", kNotThere,
       [](Host h) { return onHost(shmget(atoi(h.memory.c_str()), 0, 0)); }},
      {"connect to a port of the host's loopback", kNotThere, connectToPort},
      {"connect to an abstract socket of the host", kNotThere, connectToSocket},
      {"change the hostname", kOwn, changeHostname},
      {"read the boot id", kOwn, bootIdOf},
      {"write kernel.core_pattern", kRefused,
       [](Host) { return openOnly("/proc/sys/kernel/core_pattern", O_WRONLY); }},
      {"write vm.overcommit_memory", kOwn, fileForParameter},
      {"write net.ipv4.ip_forward", kOwn, ownSysctl},
      {"write /proc/sysrq-trigger",
       kRefused,
       [](Host) { return openOnly("/proc/sysrq-trigger", O_WRONLY); },
       {{kNotThere, "where the kernel has no SysRq", noSysrq}}},
      {"write below /sys",
       kRefused,
       [](Host) { return openOnly("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY); },
       {{kNotThere, "where the kernel has no huge pages", noHugePages}}},
      {"count events of the CPUs, perf", kRefused, perf},
      {"lift its cgroup's device filter", kNotThere, detachFilter},
      {"set release_agent of a v1 cgroup", kNotThere, releaseAgent},
      {"mount a new v1 hierarchy with release_agent",
       kRefused,
       newHierarchy,
       {{kNotThere, "where the kernel has no cgroup v1", [] { return noFileSystem("cgroup"); }}}},
      {"find cgroups of the host", kNotThere, otherCgroup},
      {"load a BPF program for tracing",
       kPossible,
       [](Host) { return onHost(loadProgram(BPF_PROG_TYPE_RAW_TRACEPOINT)); },
       {{kRefused, "where it is refused to the host's root too", noTracing}}},
      {"remount /proc/sys and write kernel.core_pattern", kPossible, makeSysctlsWritable},
      {"mount a new /proc and write kernel.core_pattern", kPossible,
       [](Host) { return mountAndOpen("proc", "sys/kernel/core_pattern", O_WRONLY); }},
      {"mount a new /sys and make it writable",
       kPossible,
       [](Host) {
         return mountAndOpen("sysfs", "kernel/mm/transparent_hugepage/enabled", O_WRONLY);
       },
       {{kNotThere, "where the kernel has no huge pages", noHugePages}}},
      {"mount the host's /dev, devtmpfs",
       kPossible,
       [](Host) { return mountAndOpen("devtmpfs", ".", O_RDONLY); },
       {{kNotThere, "where the kernel has no devtmpfs", [] { return noFileSystem("devtmpfs"); }}}},
      {"mount debugfs",
       kPossible,
       [](Host) { return mountAndOpen("debugfs", ".", O_RDONLY); },
       {{kNotThere, "where the kernel has no debugfs", [] { return noFileSystem("debugfs"); }}}},
      {"read keys of the host's root", kPossible, hostKey},
  };
  return all;
}

Outcome Try::here() const {
  for (auto& other : otherwise) {
    if (other.holds()) return other.outcome;
  }
  return expected;
}

std::string Try::documented() const {
  auto text = nameOf(expected);
  for (auto& other : otherwise) text += "; " + nameOf(other.outcome) + " " + other.where;
  return text;
}

std::string nameOf(Outcome outcome) {
  switch (outcome) {
    case kRefused:
      return "refused";
    case kNotThere:
      return "not there";
    case kOwn:
      return "its own";
    case kPossible:
      return "**possible**";
  }
  return "";
}

std::vector<std::string> HostFacts::environment() const {
  return {"HOST_DISK=" + disk, "HOST_FILE=" + file,     "HOST_PROCESS=" + process,
          "HOST_PORT=" + port, "HOST_SOCKET=" + socket, "HOST_MEMORY=" + memory,
          "HOST_KEY=" + key,   "HOST_BOOT_ID=" + bootId};
}

HostFacts HostFacts::fromEnvironment() {
  auto get = [](const char* name) {
    const char* value = getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.disk = get("HOST_DISK"),
          .file = get("HOST_FILE"),
          .process = get("HOST_PROCESS"),
          .port = get("HOST_PORT"),
          .socket = get("HOST_SOCKET"),
          .memory = get("HOST_MEMORY"),
          .key = get("HOST_KEY"),
          .bootId = get("HOST_BOOT_ID")};
}

}  // namespace talos::isolation
