#include "machined/system/credential-programs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

namespace talos::machined {

kj::Vector<MissingProgram> missingPrograms(kj::StringPtr root,
                                           kj::ArrayPtr<const kj::String> names) {
  constexpr mode_t kAnyMayExecute = S_IXUSR | S_IXGRP | S_IXOTH;
  kj::Vector<MissingProgram> missing;
  for (auto i : kj::indices(names)) {
    auto path = kj::str(root, kCredentialPrograms, "/", names[i]);
    struct stat found;
    kj::String problem;
    if (stat(path.cStr(), &found) != 0) {
      problem =
          errno == ENOENT || errno == ENOTDIR
              ? kj::str("this system has no ", kCredentialPrograms, "/", names[i])
              : kj::str("cannot read ", kCredentialPrograms, "/", names[i], ": ", strerror(errno));
    } else if (!S_ISREG(found.st_mode) || (found.st_mode & kAnyMayExecute) == 0) {
      problem = kj::str(kCredentialPrograms, "/", names[i], " is not a program");
    }
    if (problem.size() > 0) missing.add(MissingProgram{i, kj::str(names[i]), kj::mv(problem)});
  }
  return missing;
}

}  // namespace talos::machined
