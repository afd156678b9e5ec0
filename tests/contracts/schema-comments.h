// The comments of rpc/*.capnp, which compiled-in schemas do not have, and the kinds of errors that
// they name.
#pragma once

#include <capnp/schema-parser.h>
#include <kj/filesystem.h>
#include <kj/vector.h>

#include <map>
#include <set>
#include <string>

#include "common/base/error.h"

namespace talos {

class SchemaComments {
 public:
  // Reads the schemas of this checkout.
  explicit SchemaComments(kj::StringPtr checkout);

  // Each returns a comment as one line; empty if there is none.
  kj::StringPtr of(capnp::InterfaceSchema schema) const;
  kj::StringPtr of(capnp::InterfaceSchema::Method method) const;

 private:
  kj::Own<kj::Filesystem> disk;
  capnp::SchemaParser parser;
  struct Comments {
    kj::String own;
    kj::Vector<kj::String> members;
  };
  std::map<uint64_t, Comments> all;  // by the id of the interface

  void add(capnp::ParsedSchema schema);
};

// Returns the kinds that a comment names, in the order of ErrorKind.
std::set<ErrorKind> errorsNamedIn(kj::StringPtr comment);

}  // namespace talos
