// The machine config in a platform's user data. Pure.
#pragma once

#include <kj/array.h>

#include "machined/platforms/platform.h"

namespace talos::parse {

// Decoded and unpacked; empty: there is none, only blanks, or the data of another system
// (#cloud-config). InvalidArgument when it is not encoded as it must be, or is not text.
kj::Array<char> readUserData(platforms::Encoding encoding, kj::Array<char> content);

// The same of the first of these properties of an OVF environment that is there and has any. `what`
// names the environment in errors: "ovf-env.xml".
kj::Array<char> readOvfProperties(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                  kj::ArrayPtr<const char> environment);

}  // namespace talos::parse
