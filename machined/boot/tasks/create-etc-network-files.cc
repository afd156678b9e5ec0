// createEtcNetworkFiles (initialize, etc): writes the first hosts, hostname and resolv.conf.
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "machined/boot/tasks/task.h"
#include "machined/system/etc-files.h"

namespace talos::machined::tasks {
namespace {

void writeNetworkFiles() {
  auto name = kernelHostname();
  writeFirstHostsFile("", name);
  writeEtcFile("", "hostname", kj::str(name, "\n"));
  // networkd owns the resolver file, in a folder that it may write to.
  makeDirectories(kNetworkdState, 0755);
  KJ_SYSCALL(chown(kNetworkdState.cStr(), kNetworkdUid, kNetworkdUid));
  auto target = kj::str(kNetworkdState, "/resolv.conf");
  auto link = "/system/etc/resolv.conf";
  unlink(link);
  KJ_SYSCALL(symlink(target.cStr(), link));
}

}  // namespace

extern const BootTask createEtcNetworkFiles = task<writeNetworkFiles>("createEtcNetworkFiles");

}  // namespace talos::machined::tasks
