#include "talosctl/cluster/processes/program-tree.h"

#include <kj/debug.h>
#include <unistd.h>

namespace talos::cluster {

kj::Vector<kj::String> inTree(kj::StringPtr root, kj::StringPtr program) {
  kj::Vector<kj::String> command;
  if (root.size() > 0) {
    command.add(kj::str(root, "/lib64/ld-linux-x86-64.so.2"));
    command.add(kj::str("--library-path"));
    command.add(kj::str(root, "/usr/lib/x86_64-linux-gnu"));
    command.add(kj::str("--argv0"));
    KJ_IF_MAYBE (slash, program.findLast('/')) command.add(kj::str(program.slice(*slash + 1)));
  }
  command.add(kj::str(program));
  return command;
}

kj::String buildFolder() {
  char self[4096];
  ssize_t n;
  KJ_SYSCALL(n = readlink("/proc/self/exe", self, sizeof self - 1));
  auto path = kj::heapString(self, n);
  for (int up = 0; up < 2; ++up) {  // …/build/out/talosctl
    KJ_IF_MAYBE (slash, path.findLast('/')) {
      path = kj::heapString(path.slice(0, *slash));
    }
  }
  return path;
}

}  // namespace talos::cluster
