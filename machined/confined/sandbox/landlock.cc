#include "machined/confined/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::confine {
namespace {

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE;
constexpr uint64_t kNever = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                            LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_IOCTL_DEV;
constexpr uint64_t kDevice = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV |
                             LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                              LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |
                              LANDLOCK_ACCESS_FS_IOCTL_DEV;

constexpr int kTcp = 4;  // the first version that restricts ports

// Returns the rights that the kernel's version knows: the kernel refuses a ruleset with an unknown
// right.
uint64_t known(int version) {
  uint64_t all = LANDLOCK_ACCESS_FS_EXECUTE | kRead | kWrite | kNever;
  if (version < 2) all &= ~uint64_t{LANDLOCK_ACCESS_FS_REFER};
  if (version < 3) all &= ~uint64_t{LANDLOCK_ACCESS_FS_TRUNCATE};
  if (version < 5) all &= ~uint64_t{LANDLOCK_ACCESS_FS_IOCTL_DEV};
  return all;
}

}  // namespace

int Landlock::version() {
  long v = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return v < 0 ? 0 : static_cast<int>(v);
}

kj::Array<kj::StringPtr> Landlock::notRestricted(int version) {
  constexpr struct {
    int since;
    kj::StringPtr what;
  } kRestrictions[] = {{1, "files that its user may open by their owner and mode"_kj},
                       {3, "emptying files that its user may write"_kj},
                       {4, "binding and connecting TCP, of a service that must not"_kj},
                       {5, "asking devices that it may open for anything"_kj},
                       {6, "signals to processes of its user, and abstract sockets"_kj}};
  kj::Vector<kj::StringPtr> missing;
  for (auto& one : kRestrictions) {
    if (version < one.since) missing.add(one.what);
  }
  return missing.releaseAsArray();
}

Landlock::Landlock(kj::StringPtr program, const LandlockPaths& paths, bool withoutTcp)
    : handled(known(version())) {
  struct landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = handled;
  // No rule allows a port.
  if (withoutTcp && version() >= kTcp) {
    attributes.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
  }
  size_t size = offsetof(struct landlock_ruleset_attr, scoped);
  if (version() >= 6) {
    attributes.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
    size = sizeof(attributes);
  }
  if (version() < kTcp) size = offsetof(struct landlock_ruleset_attr, handled_access_net);
  long fd;
  KJ_SYSCALL(fd = syscall(SYS_landlock_create_ruleset, &attributes, size, 0));
  ruleset = kj::AutoCloseFd(static_cast<int>(fd));
  allow(program, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE);
  for (auto& path : paths.read) allow(path, kRead);
  for (auto& path : paths.write) allow(path, kRead | kWrite);
  for (auto& path : paths.list) allow(path, LANDLOCK_ACCESS_FS_READ_DIR);
  for (auto& path : paths.libraries) allow(path, kRead | LANDLOCK_ACCESS_FS_EXECUTE);
  for (auto& path : paths.devices) allow(path, kDevice);
  for (auto& path : paths.asked) allow(path, kRead | LANDLOCK_ACCESS_FS_IOCTL_DEV);
}

void Landlock::allow(kj::StringPtr path, uint64_t access) {
  int opened = open(path.cStr(), O_PATH | O_CLOEXEC);
  if (opened < 0) {
    fail(ErrorKind::kNotFound,
         kj::str("cannot open ", path, " for the program: ", strerror(errno)));
  }
  kj::AutoCloseFd fd(opened);
  struct stat info;
  KJ_SYSCALL(fstat(fd, &info), path);
  struct landlock_path_beneath_attr rule = {};
  rule.parent_fd = fd.get();
  rule.allowed_access = access & handled & (S_ISDIR(info.st_mode) ? ~uint64_t{0} : kOfFiles);
  KJ_SYSCALL(syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0),
             path);
}

void Landlock::enter() {
  KJ_SYSCALL(syscall(SYS_landlock_restrict_self, ruleset.get(), 0));
}

}  // namespace talos::confine
