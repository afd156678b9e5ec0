// Draws the links of a node as a tree: members under their bond or bridge, VLANs under their link.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/network-resources.capnp.h"
#include "rpc/resources.capnp.h"

namespace talos::talosctl {

struct DrawnLink {
  kj::StringPtr name;
  rpc::LinkStatusSpec::Reader spec;
};

// Returns one line for each link, each once, in the order of their indices; ends with a newline.
// Links that refer to each other (which no kernel reports) are drawn side by side.
kj::String drawLinks(kj::ArrayPtr<const DrawnLink> links);

}  // namespace talos::talosctl
