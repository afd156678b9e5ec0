// Folders: lists the names in them, empties them, and makes changes in them durable, such as the
// removal of a file.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

// Returns the names directly in the folder, sorted by their bytes, without "." and ".."; empty if
// the folder does not exist. If there are more than `most`, returns any `most` of them. Throws
// kj::Exception naming the folder.
kj::Vector<kj::String> namesIn(kj::StringPtr folder, size_t most = SIZE_MAX);

// Makes creations, renamings and removals directly in the folder durable (fsync(2)): no power cut
// undoes them afterwards. Throws kj::Exception naming the folder.
void syncFolder(kj::StringPtr folder);

// Removes everything in the folder, as removeTree() does, except the entry with the path `kept`;
// afterwards no power cut restores anything. A mount below the folder stays, and the exception
// names it.
void emptyFolder(kj::StringPtr folder, kj::StringPtr kept = "");

// Returns the folder of the path's last component: "/" of "/a", "." of "a".
kj::String folderOf(kj::StringPtr path);

// Removes the file durably, the counterpart of writeFileAtomically() (file.h): its folder is
// synced, so no power cut restores the file afterwards. If the file is absent, nothing is written.
// Throws kj::Exception naming the path, or the folder.
void removeDurably(kj::StringPtr path);

}  // namespace talos
