// Attributes of devices in sysfs: small files of one line. For the files of this folder.
#pragma once

#include <kj/string.h>

namespace talos::machined {

// As it is. None: there is no such file, or the device went while it was read.
kj::Maybe<kj::String> readAttribute(kj::StringPtr device, kj::StringPtr name);

// Without blanks and newlines at its ends.
kj::Maybe<kj::String> readAttributeLine(kj::StringPtr device, kj::StringPtr name);

}  // namespace talos::machined
