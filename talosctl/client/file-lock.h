// Changes a user's file that other programs change too, such as a kubeconfig or a talosconfig. Each
// program reads, changes and writes the file while it holds kubectl's lock
// (common/user/user-file.h), so that no change is lost.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/talosconfig/talosconfig.h"
#include "common/user/user-file.h"

namespace talos::talosctl {

// Locks a file, whose folder must exist. Waits while another program holds the lock, which takes
// only a moment; Conflict with the lock's name after two seconds.
kj::Promise<kj::Own<UserFileLock>> lockUserFile(kj::Timer& timer, kj::StringPtr path);

// Reads the talosconfig, calls `change` with it, and writes it back if `change` returns true.
kj::Promise<void> changeTalosconfig(kj::Timer& timer, kj::StringPtr path,
                                    kj::Function<bool(Talosconfig&)> change);

}  // namespace talos::talosctl
