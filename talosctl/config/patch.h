// Changes a YAML document by JSON Patch (RFC 6902, with RFC 6901 pointers) or strategic merge.
//
// The document's comments above its keys are kept. A patch is applied completely or not at all: a
// problem leaves no result. Both texts may have any content; time and memory are bounded as in
// common/yaml/yaml-codec.h. Pure.
//
// A patch whose text is a list is a JSON Patch (JSON or YAML) for the machine config; a mapping is
// a strategic merge patch, and may be one of several documents. A document with a kind merges into
// the document with the same apiVersion, kind and name, or else is appended; a document without a
// kind merges into the machine config.
//
// `$patch: delete` removes the key or the document that has it, or the first item of a list with
// the same key; this happens before the rest is merged, and it is an error if nothing is found.
// Mappings merge key by key, lists are appended to, scalars replace; patch-merge.cc has the
// exceptions. Null,
// "", 0 and empty lists and mappings do not replace a value; false does.
#pragma once

#include <kj/string.h>

#include "common/base/problem.h"

namespace talos {

// The shape of a value that the document does not have yet.
enum class Shape { kUnknown, kMapping, kList };

struct PatchNames {
  kj::StringPtr document = "document";
  kj::StringPtr patch = "patch";
  // Returns the shape of a missing parent that the operation add creates on the way to its path.
  Shape (*shapeOf)(kj::ArrayPtr<const kj::StringPtr> path) = nullptr;
  // Returns true for a key of the format. A generated document leaves out a key with its default
  // value: the operation replace may replace this default, and the operation remove and
  // `$patch: delete` only cause a warning. If not set, the path must exist.
  bool (*isKey)(kj::ArrayPtr<const kj::StringPtr> path) = nullptr;
};

// Returns the changed text; byte for byte the old text if nothing changes. nullptr if there are
// problems: each names file, line and column of the failing operation or key, and its pointer. An
// empty patch, and the removal of a missing document, only cause a warning.
kj::Maybe<kj::String> applyPatch(kj::StringPtr document, kj::StringPtr patch, Problems& problems,
                                 const PatchNames& names = {});

}  // namespace talos
