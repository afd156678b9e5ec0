// machine.files: the files of the config, written at each boot.
//
// Below /var, and directly in /etc/kubernetes/manifests, a file is written in its place. Everything
// else belongs to the image, which is read-only: there the result is written to /var<path> and
// mounted read-only over the path; a file that the config adds to /etc has an empty one there
// (var-directory.h). Links are followed as long as they stay where the path may lead:
// so a second name of a file shows the same content. Missing directories are made, 0755. Entries
// for kContainerdPart are a part of another file (containerd-registries.h), and left out here.
//
// `append` starts from the image's file, or, below /var, from the file's content without the text
// that an earlier run appended: this text is noted in /var/system/appended before the file is
// changed. So a second run, another boot, a crash at any line, and a config with another text (or
// none any more) all lead to the same file, and the text of other writers stays.
//
// Only its owner can read a file before it has its permissions.
#pragma once

#include <kj/mutex.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <sys/types.h>

#include "machined/process1/value-in-memory-file.h"
#include "machined/system/system-mounts.h"
#include "rpc/config.capnp.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

struct UserFile {
  kj::String origin;  // the document that the entry is from; empty: machine.files
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
// Returns the entries of machine.files and of the EtcFileConfigs, then those of the
// TrustedRootsConfigs.
kj::Vector<UserFile> userFiles(config::Machine::Reader machine);
// Returns the paths below /etc that may have to be made for these entries (addToEtc()).
kj::Vector<kj::String> newEtcFiles(kj::ArrayPtr<const UserFile> files);

struct UserFilesResult {
  kj::Vector<kj::String> problems;  // "machine.files[2] (/var/x): …": entries that were not done
  kj::Vector<kj::String> warnings;
};
// Writes all valid entries, in their order. `root` is "" but in tests.
UserFilesResult writeUserFiles(kj::StringPtr root, Mounts& mounts,
                               kj::ArrayPtr<const UserFile> files);

// Writes the entries for one file of the image again, under any of its names, after a change of the
// config; without such entries the file is the image's. The other entries are left alone.
UserFilesResult writeImageFile(kj::StringPtr root, Mounts& mounts, kj::StringPtr path,
                               kj::ArrayPtr<const UserFile> files);

// An entry that changes a file of the image that this system does not have, or that is not a file.
struct MissingImageFile {
  size_t entry;
  kj::String path;
  kj::String problem;
};
// Returns the entries that writeUserFiles() could not carry out because of the image. Changes
// nothing.
kj::Vector<MissingImageFile> missingImageFiles(kj::StringPtr root,
                                               kj::ArrayPtr<const UserFile> files);

// The entries that the boot could not carry out. Process 1 holds them, so they outlive the brain;
// the next boot begins without any.
class UserFileProblems {
 public:
  explicit UserFileProblems(Process1& process1);  // with those of the predecessor
  KJ_DISALLOW_COPY_AND_MOVE(UserFileProblems);

  kj::ArrayPtr<const kj::String> list() const { return problems; }
  // Returns true if this boot has written the files, as far as it could.
  bool known() const { return isKnown; }
  // Resolves when process 1 holds them.
  kj::Promise<void> set(kj::Vector<kj::String> list);

  // Locked by a thread while it writes files of the config. The boot's thread may be late, and a
  // brain that continues the boot of its predecessor writes the files again.
  kj::MutexGuarded<bool> writing{false};

 private:
  Held<rpc::HeldTexts> held;
  kj::Vector<kj::String> problems;
  bool isKnown = false;
};

}  // namespace talos::machined
