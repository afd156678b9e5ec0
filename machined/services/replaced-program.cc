#include "machined/services/replaced-program.h"

#include <sys/stat.h>
#include <unistd.h>

namespace talos::machined {

kj::Maybe<kj::String> replacedProgram(kj::StringPtr id, kj::StringPtr folder) {
  struct stat info = {};
  auto isRoots = [&](mode_t type) {
    return (info.st_mode & S_IFMT) == type && info.st_uid == getuid() &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  };
  if (lstat(folder.cStr(), &info) != 0 || !isRoots(S_IFDIR)) return nullptr;
  auto path = kj::str(folder, "/", id);
  if (lstat(path.cStr(), &info) != 0 || !isRoots(S_IFREG)) return nullptr;
  if ((info.st_mode & S_IXOTH) == 0) return nullptr;
  return kj::mv(path);
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
