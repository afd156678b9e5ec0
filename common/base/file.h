// Files that must survive: written as temp + fsync + rename + fsync of the directory, so that after
// a crash at any line the old content or the new one is there, whole.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <sys/types.h>

namespace talos {

// Throws kj::Exception naming the path. `mode` is exact (no umask), and only the owner can read the
// file before it is complete.
void writeFileAtomically(kj::StringPtr path, kj::ArrayPtr<const char> content, mode_t mode);

// Removes the temporary files that a power cut left directly in this folder: regular files whose
// name ends in ".unfinished-" and six letters or digits. For own folders, before anybody writes
// there. An absent folder is fine.
void removeUnfinished(kj::StringPtr folder);

// The whole file; no other copy of it is left in memory. Throws NotFound naming the path, or
// InvalidArgument when it is larger than `limit`.
kj::String readFile(kj::StringPtr path, size_t limit = 64u << 20);
kj::Maybe<kj::String> tryReadFile(kj::StringPtr path, size_t limit = 64u << 20);

// Reads from the offset on, as much as fits; less only at the end of the file. Throws naming
// `path`.
size_t readAt(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> bytes, kj::StringPtr path);

// mkdir -p with this mode for the directories that are made.
void makeDirectories(kj::StringPtr path, mode_t mode = 0755);
// rm -r, never following links and never leaving the file system that `path` is on. Absent is fine.
void removeTree(kj::StringPtr path);

}  // namespace talos
