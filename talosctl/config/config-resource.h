// The machine config in what "talosctl get mc -o yaml" or "-o json" prints, so that its output can
// be edited and applied again.
#pragma once

#include <kj/common.h>
#include <kj/string.h>

namespace talos::talosctl {

// The config, with the comments in it if the text is YAML; none for a text that is no such
// resource. InvalidArgument for several of them: they are the configs of several nodes.
kj::Maybe<kj::String> configInResource(kj::ArrayPtr<const char> text, kj::StringPtr file);

}  // namespace talos::talosctl
