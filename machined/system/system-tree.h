// Files and directories inside of a tree that others may write to as well: no link leads out of it.
//
// Names are resolved by openat2(2) relative to an open directory. A file is replaced as a whole:
// temp + fsync + rename + fsync of the directory, so that after a crash at any line the old content
// or the new one is there; nobody can read the new one before it has its permissions. A temporary
// file that a crash left is overwritten by the next call.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <sys/stat.h>

namespace talos::machined {

// Where links may lead.
enum class Links {
  kNone,     // there must be none
  kBeneath,  // to what is in the tree; an absolute one leads out
  kInRoot,   // the tree is a root: absolute ones and .. are taken from there
};

kj::AutoCloseFd openTree(kj::StringPtr path);
// None: there is no such file. FailedPrecondition when a link leads out.
kj::Maybe<kj::AutoCloseFd> tryOpen(int tree, kj::StringPtr relative, int flags, Links links);
kj::Maybe<struct stat> tryStat(int directory, kj::StringPtr name);  // of a link itself
// mkdir -p inside of the tree; `mode` is exact for those that are made. "" is the tree itself.
kj::AutoCloseFd makeDirectoriesIn(int tree, kj::StringPtr relative, mode_t mode);
// Absolute, as this process sees it.
kj::String pathOf(int fd);
// InvalidArgument when it is larger than `limit`.
kj::Array<char> readAll(int fd, size_t limit);

struct FileAttributes {
  mode_t mode = 0600;
  uid_t uid = 0;
  gid_t gid = 0;
};
void replaceFile(int directory, kj::StringPtr name, kj::ArrayPtr<const char> content,
                 const FileAttributes& attributes);

// "a/b" -> "a", "b"; "b" -> "", "b".
struct SplitPath {
  kj::String directory, name;
};
SplitPath split(kj::StringPtr path);

}  // namespace talos::machined
