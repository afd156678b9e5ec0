// Attributes of devices in sysfs: small files of one line, and links to other devices. Never
// throws: a device may disappear while it is read.
#pragma once

#include <kj/string.h>

namespace talos {

// Returns the content unchanged; nullptr if the file does not exist, or cannot be read now.
kj::Maybe<kj::String> readAttribute(kj::StringPtr device, kj::StringPtr name);

// Returns the content without blanks and newlines at its ends.
kj::Maybe<kj::String> readAttributeLine(kj::StringPtr device, kj::StringPtr name);

// Returns the last name of a link's target, unchanged; empty if it is not a link.
kj::String nameOfTarget(kj::StringPtr link);

// Returns the folder that the path leads to, without links in it; nullptr if it does not exist.
kj::Maybe<kj::String> resolvedPath(kj::StringPtr path);

}  // namespace talos
