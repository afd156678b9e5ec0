#include "common/user/sudo-caller.h"

#include <errno.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"

namespace talos {
namespace {

constexpr size_t kLargestGroupFile = 4u << 20;

kj::Maybe<uint32_t> idIn(const char* variable) {
  auto text = getenv(variable);
  if (text == nullptr) return nullptr;
  return kj::StringPtr(text).tryParseAs<uint32_t>();
}

// Parses name:password:ID:MEMBER,MEMBER.
kj::Maybe<gid_t> groupOf(kj::ArrayPtr<const char> line, kj::StringPtr user) {
  kj::Vector<kj::String> fields;
  size_t start = 0;
  for (size_t i = 0; i <= line.size(); ++i) {
    bool members = fields.size() >= 3;
    if (i < line.size() && line[i] != (members ? ',' : ':')) continue;
    fields.add(kj::heapString(line.slice(start, i)));
    start = i + 1;
  }
  for (size_t i = 3; i < fields.size(); ++i) {
    if (fields[i] == user) return fields[2].tryParseAs<gid_t>();
  }
  return nullptr;
}

// Does not use getgrouplist(3), which loads shared libraries into a static program.
kj::Vector<gid_t> groupsOf(kj::StringPtr user) {
  kj::Vector<gid_t> groups;
  KJ_IF_MAYBE (text, tryReadFile("/etc/group", kLargestGroupFile)) {
    for (auto line : Lines(*text)) {
      KJ_IF_MAYBE (group, groupOf(line, user)) groups.add(*group);
    }
  }
  return groups;
}

// Calls setgroups(2) for this thread only: the function of the C library changes all threads.
bool setThreadGroups(kj::ArrayPtr<const gid_t> groups) {
  return syscall(SYS_setgroups, groups.size(), groups.begin()) == 0;
}

kj::Vector<gid_t> threadGroups() {
  int count;
  KJ_SYSCALL(count = getgroups(0, nullptr));
  kj::Vector<gid_t> groups;
  groups.resize(static_cast<size_t>(count));
  KJ_SYSCALL(getgroups(count, groups.begin()));
  return groups;
}

}  // namespace

kj::Maybe<SudoCaller> sudoCaller() {
  if (geteuid() != 0) return nullptr;
  auto user = idIn("SUDO_UID").orDefault(0), group = idIn("SUDO_GID").orDefault(0);
  if (user == 0 || group == 0) return nullptr;
  SudoCaller caller{user, group, {}};
  auto name = getenv("SUDO_USER");
  if (name != nullptr) caller.groups = groupsOf(name);
  return caller;
}

kj::Maybe<SudoCaller> sudoCallerWhoOwns(kj::StringPtr path) {
  auto caller = sudoCaller();
  uid_t user;
  KJ_IF_MAYBE (found, caller) {
    user = found->user;
  } else {
    return nullptr;
  }
  ActAs acting(caller);
  auto at = kj::str(path);
  struct stat found;
  while (stat(at.cStr(), &found) < 0) {
    if (errno != ENOENT && errno != ENOTDIR) return nullptr;
    at = folderOf(at);
  }
  if (found.st_uid != user) return nullptr;
  return caller;
}

ActAs::ActAs(const kj::Maybe<SudoCaller>& caller) {
  KJ_IF_MAYBE (user, caller) {
    groups = threadGroups();
    if (!setThreadGroups(user->groups)) KJ_FAIL_SYSCALL("setgroups", errno);
    group = static_cast<gid_t>(setfsgid(user->group));
    changed = true;
    setfsuid(user->user);
    // Neither call reports a failure; with -1 both only return the id in force.
    bool done = static_cast<uid_t>(setfsuid(-1)) == user->user &&
                static_cast<gid_t>(setfsgid(-1)) == user->group;
    if (done) return;
    restore();
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot act as uid ", user->user, " of SUDO_UID; unset it to act as root"));
  }
}

ActAs::~ActAs() noexcept {
  restore();
}

// Restores the identity; aborts on failure, because a process that keeps a part of another identity
// must not continue.
void ActAs::restore() {
  if (!changed) return;
  changed = false;
  setfsuid(geteuid());
  setfsgid(group);
  if (!setThreadGroups(groups)) abort();
}

}  // namespace talos
