// Extracts the machine config from the output of `talosctl get mc -o yaml` or `-o json`, so that
// users can edit this output and apply it.
#pragma once

#include <kj/common.h>
#include <kj/string.h>

namespace talos::talosctl {

// Returns the config, with its comments if the text is YAML; nullptr if the text is no such
// resource. InvalidArgument for several resources: they are the configs of several nodes.
kj::Maybe<kj::String> configInResource(kj::ArrayPtr<const char> text, kj::StringPtr file);

}  // namespace talos::talosctl
