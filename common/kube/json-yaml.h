// Converts JSON values from and to YAML (JSON is a subset of YAML; manifests are written in
// either).
//
// The writer includes no parser. The reader is common/yaml's, with its limits: a document that is
// not valid YAML is InvalidArgument with file, line and column.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

// Writes block style, with so many spaces a level and a newline at the end.
kj::String writeYaml(const Json& value, unsigned indent = 2);

// Returns the documents of a stream, without those that are empty or only comments.
kj::Vector<Json> readYaml(kj::ArrayPtr<const char> text, kj::StringPtr file);

}  // namespace talos::kube
