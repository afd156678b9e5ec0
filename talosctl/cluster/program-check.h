// Checks that a file is a program that a node can run as a daemon. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::talosctl {

// Throws InvalidArgument with the reason if a node cannot run the file: it is larger than the
// limit, no static ELF program of this architecture, another daemon, or of a build with another
// page of a service (common/crash/daemon-mark.h). `path`: for the message.
void checkProgram(kj::StringPtr path, kj::StringPtr service, kj::ArrayPtr<const char> bytes);

}  // namespace talos::talosctl
