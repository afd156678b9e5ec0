// Changes of a YAML document: JSON Patch (RFC 6902, with RFC 6901 pointers) and strategic merge.
//
// The document's comments above its keys survive. All or nothing: a problem leaves no result.
// Both texts may be anything; time and memory are bounded as in common/yaml/yaml-codec.h. Pure.
//
// A patch whose text is a list is a JSON Patch (JSON or YAML); a mapping is a strategic merge
// patch: mappings merge key by key, scalars replace, null removes nothing (it is a value), `$patch:
// delete` in a mapping removes it; lists are appended to, except that lists whose items have a name
// merge item by item (network.interfaces by `interface`, vlans by `vlanId`), and podSubnets and
// serviceSubnets are replaced. A document that has a kind is no patch of a machine config.
#pragma once

#include <kj/string.h>

#include "common/base/problem.h"

namespace talos {

// The shape of a value that the document does not have yet.
enum class Shape { kUnknown, kMapping, kList };

struct PatchNames {
  kj::StringPtr document = "document";
  kj::StringPtr patch = "patch";
  // Of what the operation add makes on the way to its path, where there is nothing yet.
  Shape (*shapeOf)(kj::ArrayPtr<const kj::StringPtr> path) = nullptr;
  // Of a document that was generated: a key that the format has and the document leaves out has its
  // default, which the operation replace replaces. Not set: its path must be there.
  bool (*isKey)(kj::ArrayPtr<const kj::StringPtr> path) = nullptr;
};

// The changed text; byte for byte the old one when nothing changes. None when there are problems:
// each names file, line and column of the operation or key that cannot be done, and its pointer.
kj::Maybe<kj::String> applyPatch(kj::StringPtr document, kj::StringPtr patch, Problems& problems,
                                 const PatchNames& names = {});

}  // namespace talos
