// The folder of a node in a container that has the programs of `talosctl debug replace`, as the
// host's root sees it.
//
// The tree below the node's root is the node's: a link in it must not lead the host's root to a
// file of the host. So it is opened without following any, and used by descriptor from then on.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::talosctl {

// `root`: /proc/<pid>/root. Makes the folder when it is not there. FailedPrecondition when it, or
// the way to it, is a link or not root's alone.
kj::AutoCloseFd openReplacedFolder(kj::StringPtr root);

// As a whole, so that a start meanwhile finds the one before or this one.
void putProgram(int folder, kj::StringPtr name, kj::ArrayPtr<const char> program);

// False when there was none.
bool takeProgram(int folder, kj::StringPtr name);

}  // namespace talos::talosctl
