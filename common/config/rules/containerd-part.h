// The user's part of containerd's configuration: the entries of machine.files for the path
// kContainerdPart, each a fragment of TOML, which is merged into the system's own part. Pure. The
// checks of the config and the node's parser use it, so they agree.
//
// A later fragment adds to an earlier one and must not contradict it; all of them replace values of
// the system's part.
//
// Reference: containerd 1.7, containerd-config.toml(5). With what is an error here it does not
// start, or runs without its plugin for Kubernetes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/node-layout.h"
#include "common/toml/toml.h"

namespace talos::config {

class ContainerdPart {
 public:
  struct Mistake {
    bool warning;
    kj::String message, hint;  // the hint may be empty
  };

  // Adds a fragment and returns its mistakes. A fragment with an error is not added.
  kj::Vector<Mistake> add(kj::ArrayPtr<const char> fragment);

  // Returns `system`, a document, with all fragments merged into it. InvalidArgument.
  kj::String over(kj::ArrayPtr<const char> system) const;

 private:
  toml::Value merged;
};

}  // namespace talos::config
