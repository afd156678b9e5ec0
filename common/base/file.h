// Writes files that must survive: temporary file, fsync, rename, fsync of the directory. After a
// crash at any line, either the old content or the new one is complete.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>
#include <stdint.h>
#include <sys/types.h>

namespace talos {

// Throws kj::Exception naming the path. `mode` is exact (no umask), and only the owner can read the
// file before it is complete.
void writeFileAtomically(kj::StringPtr path, kj::ArrayPtr<const char> content, mode_t mode);

// Removes the temporary files that a power cut left directly in this folder: regular files whose
// name ends in ".unfinished-" and six letters or digits. Only for folders of the calling program,
// before anything writes there. The folder may be absent.
void removeUnfinished(kj::StringPtr folder);

// Returns the whole file; no other copy of it is left in memory. Throws NotFound naming the path,
// or InvalidArgument if the file is larger than `limit`.
kj::String readFile(kj::StringPtr path, size_t limit = 64u << 20);
kj::Maybe<kj::String> tryReadFile(kj::StringPtr path, size_t limit = 64u << 20);

// Reads from the offset until `bytes` is full; less only at the end of the file. Throws naming
// `path`.
size_t readAt(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> bytes, kj::StringPtr path);

// Makes a directory and its parents (mkdir -p), each new one with this mode.
void makeDirectories(kj::StringPtr path, mode_t mode = 0755);
// Removes a tree (rm -r), never following links and never leaving the file system of `path`. The
// tree may be absent.
void removeTree(kj::StringPtr path);

// Takes the steps of writeFileAtomically() for a file that needs more than a mode, such as an
// owner. `complete` gets the descriptor of the new file, which has its content and which only its
// owner can read until then. After a crash at any line, the name refers to the old file or the new
// one.
void replaceFile(kj::StringPtr path, kj::ArrayPtr<const char> content,
                 kj::FunctionParam<void(int fd)> complete);

}  // namespace talos
