#include "machined/services/replaced-program.h"

#include <sys/stat.h>
#include <unistd.h>

namespace talos::machined {

DebugOrder debugOrder(kj::StringPtr id, kj::StringPtr folder) {
  struct stat info = {};
  auto isRoots = [&](kj::StringPtr path, mode_t type) {
    return lstat(path.cStr(), &info) == 0 && (info.st_mode & S_IFMT) == type &&
           info.st_uid == getuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  };
  DebugOrder order;
  if (!isRoots(folder, S_IFDIR)) return order;
  order.stop = isRoots(kj::str(folder, "/", id, ".stop"), S_IFREG);
  auto path = kj::str(folder, "/", id);
  if (isRoots(path, S_IFREG) && (info.st_mode & S_IXOTH) != 0) order.program = kj::mv(path);
  return order;
}

kj::Array<kj::String> withProgram(kj::ArrayPtr<const kj::String> argv, kj::StringPtr program,
                                  kj::StringPtr other) {
  return KJ_MAP(argument, argv) {
    kj::StringPtr text = argument;
    if (text == program) return kj::str(other);
    // --landlock-read=/usr/bin/networkd
    bool names = text.startsWith("--") && text.size() > program.size() + 1 &&
                 text.endsWith(program) && text[text.size() - program.size() - 1] == '=';
    if (!names) return kj::str(text);
    return kj::str(text.slice(0, text.size() - program.size()), other);
  };
}

}  // namespace talos::machined
