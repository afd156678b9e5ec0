// The folder of a node in a container that has the programs of `talosctl debug replace`, as the
// host's root sees it.
//
// The node controls the tree below its root: a link in this tree must not lead the host's root to a
// file of the host. So the folder is opened without following links, and then used by its
// descriptor.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::talosctl {

// Opens the folder, and creates it if it does not exist. `root`: /proc/<pid>/root.
// FailedPrecondition if the folder, or a part of its path, is a link or writable for others than
// root.
kj::AutoCloseFd openReplacedFolder(kj::StringPtr root);

// Writes the program atomically: a start meanwhile finds either the old or the new program.
void putProgram(int folder, kj::StringPtr name, kj::ArrayPtr<const char> program);

// Removes the program. Returns false if there was no program.
bool takeProgram(int folder, kj::StringPtr name);

}  // namespace talos::talosctl
