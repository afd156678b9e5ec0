// JSON values from YAML and as YAML (it is a subset; manifests are written in either).
//
// Writing has no parser in it. Reading is common/yaml's, with its limits: a document that is no
// YAML is InvalidArgument with file, line and column.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

// Block style, so many spaces a level, ends with a newline.
kj::String writeYaml(const Json& value, unsigned indent = 2);

// The documents of a stream; those that are empty, or only comments, are left out.
kj::Vector<Json> readYaml(kj::ArrayPtr<const char> text, kj::StringPtr file);

}  // namespace talos::kube
