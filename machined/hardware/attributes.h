// Attributes of sysfs as numbers and printable text, and folders of numbered things. For the files
// of this folder.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

// None: there is no such file, it cannot be read now, or it has no whole number.
kj::Maybe<int64_t> attributeNumber(kj::StringPtr device, kj::StringPtr name);
// Printable ASCII; empty as above.
kj::String attributeText(kj::StringPtr device, kj::StringPtr name);
// The last name of a link's target; empty: it is none.
kj::String linkName(kj::StringPtr link);
// "mc0", "mc1" … "mc10" in a folder, in the order of their numbers.
kj::Vector<kj::String> numberedNames(kj::StringPtr folder, kj::StringPtr prefix, size_t most);

}  // namespace talos::machined
