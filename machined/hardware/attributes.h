// Reads attributes of sysfs as numbers and printable text, and lists folders of numbered entries.
// For the files of this folder.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

// Returns nullptr if the file does not exist, cannot be read now, or holds no integer.
kj::Maybe<int64_t> attributeNumber(kj::StringPtr device, kj::StringPtr name);
// Returns printable ASCII; empty in the same cases.
kj::String attributeText(kj::StringPtr device, kj::StringPtr name);
// Returns the last name of a link's target; empty if it is not a link.
kj::String linkName(kj::StringPtr link);
// Returns "mc0", "mc1" … "mc10" in a folder, in the order of their numbers.
kj::Vector<kj::String> numberedNames(kj::StringPtr folder, kj::StringPtr prefix, size_t most);

}  // namespace talos::machined
