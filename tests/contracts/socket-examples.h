// One call with its answer for each interface that a connection begins with, in JSON: written by
// hand, and checked against the schema.
#pragma once

#include <capnp/schema.h>
#include <kj/string.h>

namespace talos::contracts {

// Returns the example in Markdown. Throws if it does not fit the schema.
kj::String exampleOf(capnp::InterfaceSchema bootstrap);

}  // namespace talos::contracts
