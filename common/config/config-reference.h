// The reference document of the machine config, in Markdown: what every key means, from the
// schema's annotations, each with an example. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

struct Reference {
  kj::String markdown;
  kj::Vector<kj::String> missing;  // paths of keys that the example does not set
};

// `example` is a config that sets every key to something else than its default. Its secrets and
// certificates are not shown.
Reference reference(Config::Reader example);

}  // namespace talos::config
