// Compares the schemas of a release with later ones. Programs one version apart talk to each other
// and read each other's records, so that a schema may only grow: no type, field, enumerant or
// method is removed, renamed or moved, and none changes its type or default. A new name is refused
// since JSON and YAML have it. Types, offsets and defaults are compared by Cap'n Proto itself.
#pragma once

#include <kj/filesystem.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

struct SchemaGrowth {
  kj::Vector<kj::String> problems;  // one line each: the file, the type, the member, what to do
  unsigned compared = 0;            // structs (also of parameters), groups, enums, interfaces
};

// Each directory has files *.capnp; `imports` is where "/capnp/c++.capnp" is. Throws if one of them
// cannot be compiled.
SchemaGrowth compareSchemas(const kj::ReadableDirectory& released,
                            const kj::ReadableDirectory& current,
                            const kj::ReadableDirectory& imports);

}  // namespace talos
