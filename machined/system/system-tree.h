// Files and directories inside of a tree that others may also write to: no link leads out of it.
//
// Names are resolved by openat2(2) relative to an open directory. A file is replaced as a whole:
// temp + fsync + rename + fsync of the directory, so that after a crash at any line it has the old
// content or the new; the new content cannot be read before it has its permissions. A temporary
// file that a crash left is overwritten by the next call.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <sys/stat.h>

namespace talos::machined {

// The places that links may lead to.
enum class Links {
  kNone,     // links are refused
  kBeneath,  // inside of the tree; an absolute link leads out
  kInRoot,   // the tree is a root: absolute links and .. are relative to it
};

kj::AutoCloseFd openTree(kj::StringPtr path);
// Returns nullptr if the file does not exist. FailedPrecondition when a link leads out.
kj::Maybe<kj::AutoCloseFd> tryOpen(int tree, kj::StringPtr relative, int flags, Links links);
kj::Maybe<struct stat> tryStat(int directory, kj::StringPtr name);  // of a link itself
// Makes directories inside of the tree, like mkdir -p; new ones have exactly `mode`. "" is the tree
// itself.
kj::AutoCloseFd makeDirectoriesIn(int tree, kj::StringPtr relative, mode_t mode);
// Returns the absolute path for this process.
kj::String pathOf(int fd);
// Returns the path of `fd` below the tree; "" for the tree itself.
kj::String relativeTo(int tree, int fd);
// Reads the whole file. InvalidArgument if it is larger than `limit`.
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
