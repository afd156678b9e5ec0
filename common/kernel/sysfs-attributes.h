// Attributes of devices in sysfs: small files of one line, and links to other devices. Never
// throws: a device may go while it is read.
#pragma once

#include <kj/string.h>

namespace talos {

// As it is. None: there is no such file, or it cannot be read now.
kj::Maybe<kj::String> readAttribute(kj::StringPtr device, kj::StringPtr name);

// Without blanks and newlines at its ends.
kj::Maybe<kj::String> readAttributeLine(kj::StringPtr device, kj::StringPtr name);

// The last name of a link's target, as it is; empty: it is none.
kj::String nameOfTarget(kj::StringPtr link);

// The folder that the path leads to, without links in it. None: there is none.
kj::Maybe<kj::String> resolvedPath(kj::StringPtr path);

}  // namespace talos
