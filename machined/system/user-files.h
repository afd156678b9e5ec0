// machine.files: the files of the config, written at each boot.
//
// Below /var, and directly in /etc/kubernetes/manifests, a file is written in its place. Everything
// else belongs to the image, which is read-only: there the result is written to /var<path> and
// mounted read-only over the path. Links are followed as long as they stay where the path may lead:
// so a second name of a file shows the same content. Missing directories are made, 0755.
//
// `append` starts from the image's file, or, below /var, from the file's content without the text
// that an earlier run appended: this text is noted in /var/system/appended before the file is
// changed. So a second run, another boot, a crash at any line, and a config with another text (or
// none any more) all lead to the same file, and the text of other writers stays.
//
// Only its owner can read a file before it has its permissions.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/types.h>

#include "machined/system/system-mounts.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

struct UserFile {
  config::FileOp op;
  kj::String path;
  kj::String content;  // zeroed on destruction
  mode_t mode;

  UserFile(config::FileOp op, kj::StringPtr path, kj::StringPtr content, mode_t mode)
      : op(op), path(kj::str(path)), content(kj::str(content)), mode(mode) {}
  UserFile(UserFile&&) = default;
  UserFile& operator=(UserFile&&) = default;
  ~UserFile() noexcept(false);
};
kj::Vector<UserFile> userFiles(config::Machine::Reader machine);

struct UserFilesResult {
  kj::Vector<kj::String> problems;  // "machine.files[2] (/var/x): …": entries that were not done
  kj::Vector<kj::String> warnings;
};
// Writes all valid entries, in their order. `root` is "" but in tests.
UserFilesResult writeUserFiles(kj::StringPtr root, Mounts& mounts,
                               kj::ArrayPtr<const UserFile> files);

}  // namespace talos::machined
