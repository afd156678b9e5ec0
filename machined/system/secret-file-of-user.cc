#include "machined/system/secret-file-of-user.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/memory/zeroize.h"

namespace talos::machined {
namespace {

bool isUpToDate(kj::StringPtr path, kj::ArrayPtr<const kj::byte> content, unsigned uid) {
  struct stat found;
  if (lstat(path.cStr(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  if (found.st_uid != uid || (found.st_mode & 07777) != 0400) return false;
  KJ_IF_MAYBE (existing, tryReadFile(path)) {
    KJ_DEFER(zeroize(existing->asArray()));
    return existing->asBytes() == content;
  }
  return false;
}

}  // namespace

void writeOwnedFile(kj::StringPtr path, kj::ArrayPtr<const kj::byte> content, unsigned uid) {
  if (isUpToDate(path, content, uid)) return;
  auto made = kj::str(path, ".new");
  unlink(made.cStr());
  int raw;
  KJ_SYSCALL(raw = open(made.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400),
             made);
  kj::AutoCloseFd file(raw);
  kj::FdOutputStream(file.get()).write(content.begin(), content.size());
  KJ_SYSCALL(fchown(file, uid, uid), made);
  KJ_SYSCALL(fsync(file), made);
  KJ_SYSCALL(rename(made.cStr(), path.cStr()), path);
}

}  // namespace talos::machined
