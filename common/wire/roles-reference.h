// The table of methods and roles for docs/trust.md, made of the schema.
#pragma once

#include <kj/string.h>

namespace talos {

// Markdown: each method of the API with the least role that may call it, whether its calls are
// recorded and whether a machine without a config serves it; then the resource types that only
// os:admin reads. Methods of what callers pass in (sinks) are left out.
kj::String rolesReference();

}  // namespace talos
