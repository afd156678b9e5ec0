// The machine config in a platform's user data. Pure.
#pragma once

#include <kj/array.h>

#include "machined/platforms/platform.h"

namespace talos::parse {

// Returns the config, decoded and unpacked; empty if there is no content, only blanks, or the data
// of another system (#cloud-config). InvalidArgument if its encoding is invalid, or it is not text.
kj::Array<char> readUserData(platforms::Encoding encoding, kj::Array<char> content);

// Does the same for the first of these properties of an OVF environment that has a config. `what`
// names the environment in errors: "ovf-env.xml".
kj::Array<char> readOvfProperties(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                  kj::ArrayPtr<const char> environment);

}  // namespace talos::parse
