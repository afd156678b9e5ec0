// Folders: the names in them, emptying them, and making changes in them durable.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

// The names directly in it, sorted by their bytes, without "." and ".."; none when there is no such
// folder. Of more than `most`, any `most` of them. Throws kj::Exception naming the folder.
kj::Vector<kj::String> namesIn(kj::StringPtr folder, size_t most = SIZE_MAX);

// When it returns, no power cut undoes a creation, renaming or removal directly in it (fsync(2)).
// Throws kj::Exception naming the folder.
void syncFolder(kj::StringPtr folder);

// Removes all that is in it, as removeTree() does, but for the entry with the path `kept`; no power
// cut brings anything back when it returns. A mount below it stays, and is named by the exception.
void emptyFolder(kj::StringPtr folder, kj::StringPtr kept = "");

// The folder of the path's last component: "/" of "/a", "." of "a".
kj::String folderOf(kj::StringPtr path);

}  // namespace talos
