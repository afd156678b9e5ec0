#include "common/base/remove-file.h"

#include <errno.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/folder.h"

namespace talos {

void removeDurably(kj::StringPtr path) {
  if (unlink(path.cStr()) != 0) {
    if (errno == ENOENT) return;
    KJ_FAIL_SYSCALL("unlink", errno, path);
  }
  syncFolder(folderOf(path));
}

}  // namespace talos
